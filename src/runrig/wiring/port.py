"""Binds a port. Imports nothing slow, so that a port in use is reported before the server is loaded."""

import socket

from runrig.domain.errors import ServerFault

LOOPBACK = "127.0.0.1"


def bound(host: str, port: int, elsewhere: str) -> socket.socket:
    """Returns a socket that is bound but not listening. Raises ServerFault if it cannot. *elsewhere*: how to choose another port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio delays small responses by 40 ms on other sockets.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise ServerFault(
            f"cannot listen on port {port} of {host} ({error.strerror}). Stop the program that uses it, or {elsewhere}"
        ) from error
    return found
