# make lab: open the lessons.   make test: prove all of it.   PYTHON=python3.12 picks the interpreter of a new .venv.
PYTHON ?= python3
BIN := .venv/bin
# The release of every package, those that others bring included. `make install CONSTRAINTS=` in a new .venv takes the
# newest of each that pyproject.toml allows.
CONSTRAINTS ?= .ci/constraints.txt

.PHONY: install lab test train bench executed sanitize lint constraints compiler

install: .venv/.installed

lab: compiler install
	cd notebooks && ../$(BIN)/jupyter lab --allow-root

test: compiler install
	$(BIN)/python -m pytest --nbmake --nbmake-timeout=180 -n auto --durations=10 tests notebooks

# Times of the kernels on this machine, printed and kept for lesson 32. Only on a GPU are they GPU figures.
bench: compiler install
	$(BIN)/python -m helpers.bench

# On a machine with a GPU: runs every lesson and keeps the copies with their outputs.
executed: compiler install
	$(BIN)/python -m helpers.lessons execute

# Every shipped kernel and variant but the buggy one under every tool: compute-sanitizer on a GPU, else the CPU's modes.
sanitize: compiler install
	$(BIN)/python -m helpers.tools sanitize

# The weights of lesson 31's small server: some minutes, on a GPU or without one.
train: install
	$(BIN)/python -m helpers.small_server.train

lint: install
	$(BIN)/ruff check . && $(BIN)/nbstripout --verify --keep-id --extra-keys metadata.language_info notebooks/*.ipynb

# Resolves pyproject.toml anew. uv, because it writes one file for every Python and system, with markers; pip-tools
# writes one for each. torch's CUDA build takes all that the file names for Linux; the +cpu build has no need of nvidia-*.
constraints: .venv/bin/python
	$(BIN)/python -m pip install uv==0.13.9
	$(BIN)/uv pip compile --universal --upgrade --python-version 3.11 --all-extras --strip-extras \
		--annotation-style line --custom-compile-command 'make constraints' --output-file $(CONSTRAINTS) pyproject.toml

compiler:
	@command -v g++ >/dev/null || command -v clang++ >/dev/null || $(BIN)/python -c 'import ziglang' 2>/dev/null || { echo "No C++ compiler found. Install one: sudo apt-get install g++ (macOS: xcode-select --install), or without root: make install && $(BIN)/python -m pip install '.[zig]'"; exit 1; }

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { echo "Python 3.11 to 3.13 is needed: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv || { rm -rf .venv; echo "Could not make .venv. On Debian or Ubuntu: sudo apt-get install python3-venv"; exit 1; }

# .installed keeps what was installed, for the test that says which package has drifted since. A machine without network
# whose Python has the packages: python3 -m venv --system-site-packages .venv && touch .venv/.installed
.venv/.installed: pyproject.toml $(CONSTRAINTS) | .venv/bin/python
	$(BIN)/python -m pip install --progress-bar on $(CONSTRAINTS:%=-c %) -e '.[gpu,test]'
	@cat $(CONSTRAINTS) </dev/null >$@
