"""Servers in processes of their own whose CPU time is told by thread, and a client that costs little.

In: the arguments of a server. Out: its CPU seconds while something is done here, and responses.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

GROUPS = {"http": "HTTP", "intake": "intake", "pipeline": "pipeline"}
"""Threads of the service, by their name; the others are `rest`."""


# -- the server's process ------------------------------------------------------------------------


def serve(arguments: Sequence[str], channel: Connection) -> None:
    """`broker serve` in a process of its own, which tells the CPU seconds of its threads."""
    from broker.cli import main

    threading.Thread(target=tell, args=(channel,), daemon=True).start()
    sys.argv = ["broker", "serve", *arguments]
    main()


def echo(path: str, response: bytes, channel: Connection) -> None:
    """The HTTP server alone: reads the body, and answers always the same."""
    import uvicorn

    from broker.service.api.protocol import BoundedProtocol, Connections
    from broker.service.api.server import listen

    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(response))]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": response})

    listening = listen(socket.AF_INET, ("127.0.0.1", 0))
    address = json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"})
    Path(path).write_text(address, encoding="utf-8")
    threading.Thread(target=tell, args=(channel,), daemon=True).start()
    bounds = Connections(15.0, 30.0, 4_000, 2_000)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=type("Bounded", (BoundedProtocol,), {"connections_open": bounds}),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
    )
    threading.current_thread().name = "http"
    uvicorn.Server(config).run(sockets=[listening])


def tell(channel: Connection) -> None:
    """Answer each message with the CPU seconds of the threads by group, and of the process."""
    while True:
        try:
            channel.recv()
        except EOFError:  # the other process has ended
            return
        spent: dict[str, float] = defaultdict(float)
        for thread in threading.enumerate():
            if thread.ident is not None:
                clock = time.pthread_getcpuclockid(thread.ident)
                spent[GROUPS.get(thread.name.partition("_")[0], "rest")] += time.clock_gettime(
                    clock
                )
        channel.send((time.process_time(), dict(spent), apart()))


def apart() -> float:
    """CPU seconds of the processes that this one has started and that still run, where the system
    tells of them: in the service that is stage 1 where many documents wait."""
    spent = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that has just ended
            fields = stat.read_text().rsplit(") ", 1)[1].split()
            if int(fields[1]) == os.getpid():
                spent += int(fields[11]) + int(fields[12])
    return spent / os.sysconf("SC_CLK_TCK")


def stolen() -> float:
    """Seconds for which the cores of a virtual machine stood still, as others had those of the
    hardware, added up; 0 where the system does not tell."""
    with suppress(OSError, IndexError):
        return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")
    return 0.0


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds of a process, of its threads and of the processes that it has started, wall
    seconds, and those that were `stolen`."""

    process: float
    threads: dict[str, float]
    wall: float
    apart: float = 0.0
    stolen: float = 0.0

    def micros(self, count: int) -> tuple[str, ...]:
        """Microseconds of CPU for each of `count`: of the process, of the groups of threads."""
        rest = self.process - sum(self.threads.get(name, 0.0) for name in GROUPS.values())
        parts = (self.process, *(self.threads.get(name, 0.0) for name in GROUPS.values()), rest)
        return tuple(f"{part / count * 1e6:,.0f}" for part in parts)


class Server:
    """A server in a process of its own, and the address in the file that it writes."""

    def __init__(self, target: Callable[..., None], arguments: tuple[Any, ...], file: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._channel, theirs = spawn.Pipe()
        self.process = spawn.Process(target=target, args=(*arguments, theirs))
        self.process.start()
        while not file.exists() or not (written := file.read_text(encoding="utf-8")):
            if not self.process.is_alive():
                raise RuntimeError("the server's process has ended")
            time.sleep(0.05)
        self.host = json.loads(written)["url"].removeprefix("http://")
        self.token = ""

    def _spent(self) -> tuple[float, dict[str, float], float]:
        self._channel.send(None)
        found: tuple[float, dict[str, float], float] = self._channel.recv()
        return found

    def measured(self, work: Callable[[], object]) -> Spent:
        """What the server spends while the work is done here."""
        process, threads, others = self._spent()
        stolen_before = stolen()
        begin = time.perf_counter()
        work()
        wall = time.perf_counter() - begin
        lost = stolen() - stolen_before
        process_after, after, others_after = self._spent()
        parts = {name: seconds - threads.get(name, 0.0) for name, seconds in after.items()}
        return Spent(process_after - process, parts, wall, others_after - others, lost)

    def request(
        self, method: str, path: str, body: bytes = b"", kind: str = "", **more: str
    ) -> bytes:
        """A request as bytes, with the token."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}"]
        lines += [f"Authorization: Bearer {self.token}", f"Content-Length: {len(body)}"]
        lines += [f"Content-Type: {kind}"] if kind else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def close(self) -> None:
        self.process.terminate()
        self.process.join()


@contextmanager
def service(directory: Path, *options: str) -> Iterator[Server]:
    """A service with an empty state."""
    config = directory / "broker.toml"
    config.write_text(
        'state = "state"\n[server]\nport = 0\n[time]\nlateness = "60 days"\n[logs]\nlevel = "warning"\n'
        + "\n".join(options),
        encoding="utf-8",
    )
    state = directory / "state"
    server = Server(serve, (["--config", str(config)],), state / "service.json")
    server.token = (state / "token").read_text(encoding="ascii").strip()
    try:
        yield server
    finally:
        server.close()


# -- the client ----------------------------------------------------------------------------------

_RATE = 20_000
"""Documents a second that a server may match, until it is known how many it does."""


class Kept:
    """A connection that is kept: requests are bytes made before, so that they cost little."""

    def __init__(self, server: Server) -> None:
        host, port = server.host.split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> tuple[int, bytes]:
        """The status and body of the response."""
        self._socket.sendall(request)
        data = self._socket.recv(1 << 20)
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head = data[:end].lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        parts, missing = [data[end + 4 :]], length - (len(data) - end - 4)
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        return int(head.split(b" ", 2)[1]), b"".join(parts)

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data


def ask(server: Server, method: str, path: str, body: bytes = b"", kind: str = "") -> Any:
    """The value of a response, over a connection of its own: idle ones are closed soon."""
    kept = Kept(server)
    status, answer = kept.send(server.request(method, path, body, kind))
    kept.close()
    if status >= 300:
        raise RuntimeError(f"{method} {path}: {status} {answer.decode()}")
    return json.loads(answer)


def caught_up(server: Server) -> None:
    """Wait until all that was accepted is matched. An answer takes the server as long as dozens of
    lines, so it is asked again when nearly all of the rest will be matched, at the rate so far."""
    rate, asked, waited_for = float(_RATE), 0.0, 0
    while backlog := ask(server, "GET", "/v1/status")["intake"]["backlog"]:
        now = time.perf_counter()
        if backlog < waited_for:
            rate = (waited_for - backlog) / (now - asked)
        asked, waited_for = now, backlog
        time.sleep(max(0.02, 0.9 * backlog / rate))


def send_all(kept: Kept, requests: Sequence[bytes]) -> list[float]:
    """One after the other; the seconds of each."""
    waited = []
    for request in requests:
        begin = time.perf_counter()
        status, answer = kept.send(request)
        while status == 429:
            time.sleep(0.05)
            status, answer = kept.send(request)
        if status != 202:
            raise RuntimeError(f"{status} {answer.decode()}")
        waited.append(time.perf_counter() - begin)
    return waited
