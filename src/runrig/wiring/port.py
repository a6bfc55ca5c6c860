"""Takes a port.  Imports nothing that takes time, so that a port in use is refused before the server is loaded."""

import socket

from runrig.domain.errors import ServerFault

LOOPBACK = "127.0.0.1"


def bound(host: str, port: int, elsewhere: str) -> socket.socket:
    """A socket that is bound and does not listen yet.  Raises ServerFault that names the port; *elsewhere*: how to choose another."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named: on other sockets asyncio sends small answers 40 ms late.
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
