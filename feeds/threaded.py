"""A server of the standard library in a thread of its own.

In: the server. Out: it answers from `start` to `close`, or while a block lasts.
"""

from __future__ import annotations

import threading
from socketserver import TCPServer
from typing import Self

_LOOK = 0.05
"""Seconds after which it looks whether it is to end."""


class Threaded:
    """Begins to answer with `start`; `close` waits until it has ended."""

    def __init__(self, server: TCPServer, name: str) -> None:
        self._server = server
        self.port: int = server.socket.getsockname()[1]
        """The one that was asked for, or that the system gave."""
        self._thread = threading.Thread(
            target=server.serve_forever, args=(_LOOK,), name=name, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
