"""How a lesson's kernel is reached when no person runs it: through sockets in a folder of its own, not through ports.

jupyter_client looks for five free TCP ports, closes them, and tells the kernel to open them again some seconds later.
Where many lessons start at once, another one may take a port in between; then the kernel ends, or never answers.
"""

import shutil
import tempfile
import weakref
from pathlib import Path

from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from traitlets import default

LONGEST = 103  # bytes of a socket's path: macOS allows 103, Linux 107


class SocketKernelManager(AsyncKernelManager):
    """A kernel manager whose connection file and sockets lie in a temporary folder, which goes with the kernel."""

    _remove_folder = staticmethod(lambda: None)  # until there is one

    @default("transport")
    def _transport_default(self):
        return "ipc"

    @default("connection_file")
    def _connection_file_default(self):
        folder = tempfile.mkdtemp(prefix="lesson-", dir=_short_folder())
        self._remove_folder = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return str(Path(folder) / "kernel.json")

    def cleanup_connection_file(self) -> None:
        """The folder goes with the file."""
        super().cleanup_connection_file()
        self._remove_folder()


def _short_folder():
    """TMPDIR, or /tmp where that leaves no room for a socket's name."""
    folder = tempfile.gettempdir()
    return folder if len(f"{folder}/lesson-12345678/kernel-ipc-5".encode()) <= LONGEST else "/tmp"


class LessonClient(NotebookClient):
    """An nbclient.NotebookClient with a SocketKernelManager."""

    @default("kernel_manager_class")
    def _kernel_manager_class_default(self):
        return SocketKernelManager
