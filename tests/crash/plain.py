"""A service used by a single client, one request after the other, for tests of exact behaviour.

Documents come in pairs of one number, `<a>` and then `<b>`, and each pair is one match. So what
there has to be is known by the numbers alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.crash.process import Served, configuration
from tests.waiting import PATIENCE, until

QUERY = "pair: S//a->x[./k->k] FOLLOWED BY {k = l, 1 h} S//b->y[./k->l]"


def pair(number: int, at: datetime, size: int = 0) -> str:
    """Two lines of JSON to publish; the documents have that many more bytes."""
    return "".join(
        json.dumps(
            {
                "id": f"{name}{number}",
                "timestamp": (at + timedelta(seconds=second)).isoformat(),
                "xml": f"<{name}><k>{number}</k>{' ' * size}</{name}>",
            }
        )
        + "\n"
        for second, name in enumerate("ab")
    )


class Plain(AbstractContextManager["Plain"]):
    """A service over a state in `directory`; `sections` are settings."""

    def __init__(self, directory: Path, *, plain: bool = False, **sections: dict[str, Any]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.served = Served(configuration(directory, **sections), plain=plain)
        self.state = self.served.state
        self.begin = datetime.now(UTC) - timedelta(days=2)

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        self.served.close()

    def subscribe(self, text: str = QUERY) -> dict[str, Any]:
        answer = self.served.http.post("/v1/subscriptions", json={"text": text})
        assert answer.status_code == 201, answer.text
        return dict(answer.json()[0])

    def post(self, numbers: Iterable[int], at: datetime | None = None, size: int = 0) -> int:
        """Publish pairs; returns the status of the response."""
        lines = "".join(
            pair(number, at or self.begin + timedelta(minutes=number), size) for number in numbers
        )
        answer = self.served.http.post(
            "/v1/streams/S/documents",
            content=lines,
            headers={"Content-Type": "application/x-ndjson"},
        )
        return answer.status_code

    def posted(self, numbers: Iterable[int], size: int = 0) -> None:
        """Publish pairs, and wait until they are matched."""
        assert self.post(numbers, size=size) == 202
        self.drained()

    def drained(self) -> None:
        """Wait until all documents are matched and the matches are in the log."""

        def done() -> bool:
            status = self.served.get("/v1/status")
            engine = status["engine"]  # none where the engine has been busy ever since
            return bool(engine and status["intake"]["backlog"] == engine["outbox"] == 0)

        self.wait(done)

    def wait(self, condition: Callable[[], object]) -> None:
        until(condition, lambda: f"it does not come: {self.served.get('/v1/status')}")

    def found(self) -> list[int]:
        """The numbers of the pairs in the log, in order, with repetitions."""
        return [int(each["documents"][0]["id"].removeprefix("a")) for each in self.served.matches()]

    def letters(self) -> list[dict[str, Any]]:
        return list(self.served.get("/v1/dead-letters", limit=1_000))

    def back_up(self, directory: Path) -> None:
        answer = self.served.http.post("/v1/backup", json={"directory": str(directory)})
        assert answer.status_code == 200, answer.text

    def refused(self) -> str:
        """Start a service that must refuse to start; returns its output. It ends with 1, by
        itself."""
        before = len(self.served.tail(10**9))
        self.served.launch()
        assert self.served.exited(PATIENCE), "it runs"
        assert self.served.code() == 1
        return self.served.tail(10**9)[before:]

    def replaced(self, state: Path) -> None:
        """Replace the state by a copy of another state directory."""
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.copytree(state, self.state)
