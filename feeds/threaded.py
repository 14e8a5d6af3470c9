"""Runs a `socketserver` server in a thread of its own, from `start` to `close` or for a `with`
block."""

from __future__ import annotations

import threading
from socketserver import TCPServer
from typing import Self

_LOOK = 0.05
"""Seconds between two checks whether the server is to stop."""


class Threaded:
    """A server that answers from `start` on; `close` stops it and waits until its thread has
    ended."""

    def __init__(self, server: TCPServer, name: str) -> None:
        self._server = server
        self.port: int = server.socket.getsockname()[1]
        """The port that it listens on; if 0 was requested, the one that the system chose."""
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
