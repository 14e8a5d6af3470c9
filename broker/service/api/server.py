"""The HTTP server of the API, in a thread of its own.

In: the API of a started service, and a listening socket. Out: responses, during the block.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Slow to import: an address in use is reported before.
    import uvicorn

    from broker.service.api.app import Api

_ENDING = 30
"""Seconds that requests in flight may take to end."""


class ServerError(RuntimeError):
    """The server has failed; the reason is the cause of the exception."""


def listen(family: int, address: Any) -> socket.socket:
    """A listening socket at an address. Raises OSError if the address is in use."""
    # asyncio disables Nagle's algorithm only if the protocol is given explicitly.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1_024)
        listening.set_inheritable(False)
    except BaseException:
        listening.close()
        raise
    return listening


@contextmanager
def answering(
    api: Api, listening: socket.socket, on_end: Callable[[], object] = lambda: None
) -> Iterator[uvicorn.Server]:
    """Serve requests during the block; at its end, those in flight are finished.

    `on_end` is called in the server's thread when the server has ended, for any reason. Raises
    ServerError at the end of the block if the server has failed.
    """
    import uvicorn

    from broker.service.api.own_requests import OwnToken
    from broker.service.api.pulls import Pulls
    from broker.service.api.single import Singles, protocol

    own, observe = OwnToken(api.rules), api.service.metrics.observe_request
    config = uvicorn.Config(
        api.app,
        loop="uvloop",
        http=protocol(
            api.connections,
            Singles(own, api.rules, api.together, observe),
            Pulls(own, api.service.mailbox, api.waiting, api.read, observe),
        ),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=_ENDING,
    )
    server = uvicorn.Server(config)
    ready = threading.Event()
    failures: list[BaseException] = []

    async def run() -> None:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        ready.set()
        await serving

    def loop() -> None:
        try:
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(run())
        except BaseException as error:
            failures.append(error)
        finally:
            ready.set()
            on_end()

    thread = threading.Thread(target=loop, name="http", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        api.drain()
        server.should_exit = True
        thread.join(_ENDING + 5)
    if failures:
        raise ServerError(f"the HTTP server failed: {failures[0]}") from failures[0]
