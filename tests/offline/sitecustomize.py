"""Refuses every socket that leaves this machine, in each Python process whose PYTHONPATH has this folder.

An audit hook: Python asks it before the call, whichever library makes it, and it can't be taken away again.
Compilers and debuggers are no Python processes, and libzmq's sockets, on loopback, pass it by.
"""

import ipaddress
import socket
import sys

WITH_AN_ADDRESS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind")
WITH_A_NAME = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


def _stays_here(host):
    if host is None or host in ("", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host).is_loopback
    except ValueError:
        return False  # a name: to ask who it is leaves the machine


def refuse(event, arguments):
    if event in WITH_A_NAME:
        host = arguments[0]
    elif event in WITH_AN_ADDRESS and arguments[0].family != socket.AF_UNIX and arguments[1] is not None:
        host = arguments[1][0]
    else:
        return
    if not _stays_here(host):
        raise PermissionError(f"offline: {event} to {host!r} refused")


sys.addaudithook(refuse)
