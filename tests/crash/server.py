"""An HTTP server that does not mind clients that are killed."""

from __future__ import annotations

from http.server import ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """The connection broke, or a handler of ours is wrong; that shows in what did not come."""
