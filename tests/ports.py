"""Ports of this machine for processes that are started later, or again and again.

A port that was free a moment ago may be another's now: the system gives those of its own range to
whoever connects to something, and for as long as that connection stays.
"""

from __future__ import annotations

import socket

_HELD: list[socket.socket] = []


def reserved_port() -> int:
    """A port of 127.0.0.1 that the system gives to nobody while the tests run.

    It is bound, without listening. A server may bind it besides and listen, as all servers here
    set SO_REUSEADDR; until then a connection to it is refused.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    _HELD.append(held)
    return int(held.getsockname()[1])
