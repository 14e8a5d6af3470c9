"""`broker serve` as a process, and a client for it."""

from __future__ import annotations

import json
import os
import signal
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.command import Command
from tests.feeds.data import ROOT
from tests.waiting import PATIENCE, until


class Process(AbstractContextManager["Process"]):
    """A process over a state directory, asked over HTTP; `log` is what it wrote."""

    def __init__(self, state: Path, *options: object) -> None:
        self.state = state
        self.log = state.with_name(f"{state.name}.log")
        command = ["serve", "--state", state, "--port", 0, *options]
        with self.log.open("ab") as log:
            self.process = Command(
                command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self) -> Process:
        until(lambda: self._announced() or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise AssertionError(self.log.read_text())
        reply = json.loads((self.state / "service.json").read_text())
        token = (self.state / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(
            base_url=reply["url"], headers=headers, timeout=PATIENCE, verify=False
        )
        return self

    def _announced(self) -> bool:
        """A file of a process that was killed may still be there."""
        try:
            reply = json.loads((self.state / "service.json").read_text())
        except FileNotFoundError:
            return False
        return bool(reply["pid"] == self.process.pid)

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.client.close()

    def kill(self) -> None:
        """As a power cut, for all that belongs to it."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):  # another thread was quicker
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def subscribe(self, text: str, **more: Any) -> list[dict[str, Any]]:
        answer = self.client.post("/v1/subscriptions", json={"text": text, **more})
        assert answer.status_code == 201, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found

    def publish(self, xml: str, stream: str = "S", **headers: str) -> dict[str, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.client.post(
            f"/v1/streams/{stream}/documents",
            content=xml.encode(),
            headers={"Content-Type": "application/xml", **named},
        )
        assert answer.status_code == 202, answer.text
        accepted: dict[str, Any] = answer.json()
        return accepted

    def matches(self, **query: str | float) -> list[dict[str, Any]]:
        answer = self.client.get("/v1/matches", params={"limit": 1_000, **query})
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines() if line]

    def all_matches(self, subscription: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = 0
        while page := self.matches(subscription=subscription, after=after):
            found += page
            after = page[-1]["n"]
        return found

    def status(self) -> dict[str, Any]:
        answer = self.client.get("/v1/status")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found
