"""The guard under which tests/lessons/test_lessons.py runs every lesson: no socket leaves this machine."""

import json
import subprocess
import sys
import textwrap

import nbformat
import pytest

from helpers.lessons.running import run

pytestmark = pytest.mark.no_gpu

ATTEMPTS = """
import json

def attempts():
    import json, socket, urllib.request

    def said(call):
        try:
            return f"went through: {call()}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    udp, tcp = (socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM))
    tcp.settimeout(3)
    return {
        "connect": said(lambda: tcp.connect(("192.0.2.1", 80))),
        "connect_ex": said(lambda: tcp.connect_ex(("192.0.2.1", 80))),
        "create_connection": said(lambda: socket.create_connection(("192.0.2.1", 80), timeout=3)),
        "IPv6": said(lambda: socket.socket(socket.AF_INET6).connect(("2001:db8::1", 80))),
        "sendto": said(lambda: udp.sendto(b"x", ("192.0.2.1", 53))),
        "sendmsg": said(lambda: udp.sendmsg([b"x"], [], 0, ("192.0.2.1", 53))),
        "name": said(lambda: socket.getaddrinfo("example.invalid", 80)),
        "old name": said(lambda: socket.gethostbyname("example.invalid")),
        "urlopen": said(lambda: urllib.request.urlopen("http://192.0.2.1/", timeout=3)),
    }
"""


def notebook(*cells):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in cells])


def printed(cell):
    return json.loads("".join(output.text for output in cell.outputs))


def all_refused(answers):
    refused = [name for name, said in answers.items() if "offline: socket." in said]
    assert len(answers) == 9 and refused == list(answers), answers
    return True


def test_no_cell_and_no_child_of_a_lesson_gets_out(offline):
    here = "print(json.dumps(attempts()))"
    child = "from helpers.proof.children import run_in_child\nprint(json.dumps(run_in_child(attempts).value))"
    ran = run(notebook(ATTEMPTS, here, child))
    assert all_refused(printed(ran.cells[1])) and all_refused(printed(ran.cells[2]))


def test_loopback_and_local_sockets_stay_open(offline, tmp_path):
    program = """
        import socket, sys, threading
        for family, address in ((socket.AF_INET, ("localhost", 0)), (socket.AF_INET6, ("::1", 0)),
                                (socket.AF_UNIX, sys.argv[1])):
            with socket.socket(family) as server, socket.socket(family) as client:
                try:
                    server.bind(address)
                except OSError as error:
                    assert family == socket.AF_INET6 and not isinstance(error, PermissionError)
                    continue  # this machine has no IPv6
                server.listen()
                client.connect(server.getsockname())
                client.sendall(b"heard")
                print(server.accept()[0].recv(5).decode(), family.name)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "socket")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = done.stdout.splitlines()
    assert {"heard AF_INET", "heard AF_UNIX"} <= set(said) and not done.stderr, done.stderr
