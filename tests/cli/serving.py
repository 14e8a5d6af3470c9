"""A real service for a test: a process of its own on a free port, and commands that use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from feeds.threaded import Threaded
from tests.command import Command
from tests.command import run as run_command
from tests.waiting import PATIENCE, until


def environment(**settings: str) -> dict[str, str]:
    """The environment of this process without settings of the broker, and with the given ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
    return kept | {f"BROKER_{name.upper()}": value for name, value in settings.items()}


def run(
    *args: object, stdin: str | None = None, cwd: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    return run_command(args, input=stdin, cwd=cwd, env=environment(**settings), timeout=PATIENCE)


def queries(folder: Path, text: str, name: str = "q.xscl") -> Path:
    """A query file."""
    path = folder / name
    path.write_text(text)
    return path


def book(title: str, timestamp: int | None = None) -> str:
    """A document with a title, as a line of JSON to publish."""
    xml = f"<book><title>{title}</title></book>"
    return json.dumps({"xml": xml, "timestamp": timestamp})


@dataclass
class Serving:
    """A service over a state directory. `said` is its standard error so far."""

    state: Path
    process: Command
    settings: dict[str, str]
    said: list[str] = field(default_factory=list)

    def broker(
        self, *args: object, stdin: str | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that finds the service by its state."""
        return run(*args, stdin=stdin, cwd=cwd, state=str(self.state))

    def done(self, *args: object, stdin: str | None = None, cwd: Path | None = None) -> str:
        """Run a command that must succeed; returns standard output, then standard error."""
        ended = self.broker(*args, stdin=stdin, cwd=cwd)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout + ended.stderr

    @cached_property
    def api(self) -> httpx.Client:
        """Request a path of the API; polling with commands would take too long."""
        url = json.loads((self.state / "service.json").read_text())["url"]
        token = (self.state / "token").read_text().strip()
        return httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            trust_env=False,
            verify=False,
        )

    def matched(self, id: str, count: int) -> list[dict[str, Any]]:
        """Wait for a number of matches of a subscription; returns them."""
        found: list[dict[str, Any]] = []
        after = "0"

        def enough() -> bool:
            nonlocal after
            asked = {"subscription": id, "after": after, "wait": "60"}
            page = self.api.get("/v1/matches", params=asked).raise_for_status()
            if page.content:
                found.extend(map(json.loads, page.text.strip("\n").split("\n")))
            after = page.headers["next-cursor"]
            return len(found) >= count

        until(enough, lambda: f"{len(found)} matches of {id}, not {count}")
        return found

    def until(self, path: str, arrived: Callable[[Any], bool]) -> Any:
        """Wait until the reply at a path of the API satisfies a condition; returns it."""
        found: Any = None

        def so() -> bool:
            nonlocal found
            found = self.api.get(path).raise_for_status().json()
            return arrived(found)

        until(so, lambda: str(found))
        return found

    def signal(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)


@contextmanager
def serving(state: Path, *options: object, **settings: str) -> Iterator[Serving]:
    """Start a service, and end it at the end of the block."""
    told = {"server__port": "0", "pipeline__kind": "local", "delivery__allow_private": "true"}
    told |= settings
    with Command(
        ["serve", "--state", state, *options], stderr=subprocess.PIPE, env=environment(**told)
    ) as process:
        found = Serving(state, process, told)
        up = threading.Event()

        def listen() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                found.said.append(line)
                if "serving on" in line:
                    up.set()
            up.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            assert up.wait(PATIENCE)
            assert process.poll() is None, "".join(found.said)
            yield found
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            listener.join()


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, dict[str, str], bytes]


@contextmanager
def answering(answer: Callable[[Request], Answer | None]) -> Iterator[tuple[str, list[Request]]]:
    """A server whose responses the function gives; None closes the connection. Yields its address
    and the requests so far."""
    asked: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, headers, body)
            asked.append(request)
            answered = answer(request)
            if answered is None:
                self.close_connection = True
                return
            status, sent, content = answered
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(content))} | sent).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_DELETE = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    with Threaded(ThreadingHTTPServer(("127.0.0.1", 0), Handler), "answering") as server:
        yield f"http://127.0.0.1:{server.port}", asked
