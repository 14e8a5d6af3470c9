"""A service whose state is kept: what it is asked to do, and what it says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.crash.plain import Plain
from tests.crash.webhooks import SECRET
from tests.states.documents import Doc
from tests.states.hosts import COURIER, GANNET, Hooks, Site

HERE = Path(__file__).parent
_SETTINGS: dict[str, dict[str, Any]] = {
    "pipeline": {"kind": "local", "batch": 4},
    "time": {"lateness": "36500 days", "idle": "300 days"},
    "retention": dict.fromkeys(
        ("identities", "delivered", "undelivered", "dead_letters"), "INFINITY"
    ),
}
"""Nothing goes by its age, however long after a state was made it is opened."""
_MORE = {
    "BROKER_TIME__STREAMS": json.dumps({"slow": "1 h"}),
    "BROKER_FEEDS__URLS": json.dumps([COURIER]),
}
"""One stream in which documents may be late, and a feed of the settings."""

Outcome = dict[str, Any]


class Service(AbstractContextManager["Service"]):
    """A service in `directory`, with its receivers and its feeds. `files` is its output
    directory."""

    def __init__(self, directory: Path, hooks: Hooks, site: Site, delivery: dict[str, Any]) -> None:
        settings = _SETTINGS | {"delivery": delivery}
        self.hooks, self.site, self.files = hooks, site, directory / "files"
        self.files.mkdir(parents=True, exist_ok=True)
        self.plain = Plain(directory, plain=False, **settings)
        self.served, self.state = self.plain.served, self.plain.state

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.served.close()

    # -- what is asked of it -----------------------------------------------------------------------

    def call(self, method: str, path: str, **named: Any) -> Any:
        answer = self.served.http.request(method, path, **named)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def subscribe(self, name: str, **more: Any) -> list[dict[str, Any]]:
        text = (HERE / name).read_text(encoding="utf-8") if name.endswith(".xscl") else name
        found: list[dict[str, Any]] = self.call(
            "POST", "/v1/subscriptions", json={"text": text, **more}
        )
        return found

    def publish(self, docs: Iterable[Doc]) -> int:
        """One request for each run of documents of one stream; how many were known."""
        known = 0
        runs: list[list[Doc]] = []
        for doc in docs:
            if runs and runs[-1][0].stream == doc.stream:
                runs[-1].append(doc)
            else:
                runs.append([doc])
        for run in runs:
            known += self.post(run[0].stream, run)
        return known

    def post(self, stream: str, docs: Iterable[Doc]) -> int:
        lines = [
            json.dumps(
                {
                    "id": doc.id,
                    "timestamp": doc.at.isoformat(),
                    "xml": doc.xml,
                    "revision": doc.revision,
                    "source": doc.stream,
                }
            )
            for doc in docs
        ]
        answer = self.call(
            "POST",
            f"/v1/streams/{stream}/documents",
            content="\n".join(lines),
            headers={"Content-Type": "application/x-ndjson"},
        )
        return int(answer["known"])

    def hook(self, name: str, path: str, **more: Any) -> None:
        settings = {"url": f"{self.hooks.url}/{path}", "secret": SECRET}
        self.call(
            "PUT", f"/v1/channels/{name}", json={"kind": "webhook", "settings": settings, **more}
        )

    def pulled(self) -> list[int]:
        """The numbers of the matches in the pull channel."""
        answer = self.served.http.get("/v1/matches", params={"channel": "pull", "limit": 1_000})
        assert answer.is_success, answer.text
        return [json.loads(line)["n"] for line in answer.content.splitlines()]

    def delivered(self) -> None:
        """Wait until everything is matched, and delivered where nobody refuses it."""
        self.plain.drained()

        def done() -> bool:
            channels = self.call("GET", "/v1/channels")
            return not any(
                each["waiting"]
                for each in channels
                if each["kind"] != "pull"
                and each["status"] == "active"
                and each["name"] not in self.hooks.refusing
            )

        self.plain.wait(done)

    def news(self) -> None:
        """Give the feeds new items, and wait until these are matched."""
        before = self.call("GET", "/v1/status")["intake"]["last"]
        self.site.news = True
        self.plain.wait(lambda: self.call("GET", "/v1/status")["intake"]["last"] >= before + 2)
        self.plain.drained()

    def looked(self) -> None:
        """Wait until both feeds were asked for and stored since: who asks again has stored the
        last."""
        before, requests = dict(self.site.asked), self.site.asked
        self.plain.wait(
            lambda: all(requests.get(url, 0) >= before.get(url, 0) + 3 for url in (COURIER, GANNET))
        )

    # -- what it says ------------------------------------------------------------------------------

    def described(self, since: str) -> Outcome:
        """What is registered and set up; without the times since a moment."""
        subscriptions = self.call("GET", "/v1/subscriptions", params={"limit": 1_000})
        for each in subscriptions:
            assert each.pop("atom_url")
            each["since"] = _before(each["since"], since)
            for gap in each["gaps"]:
                gap |= {name: _before(gap[name], since) for name in ("since", "until")}
        return {
            "subscriptions": {each.pop("id"): each for each in subscriptions},
            "feeds": [
                some(each, "url", "address", "title", "status")
                for each in self.call("GET", "/v1/feeds")
            ],
        }

    def channels(self) -> dict[str, Any]:
        wanted = ("kind", "subscription", "settings", "ordered", "status", "reason", "waiting")
        found = {each["name"]: each for each in self.call("GET", "/v1/channels")}
        return {name: some(each, *wanted) for name, each in found.items()}

    def aside(self) -> Outcome:
        """The dead letters: documents and deliveries."""
        letters = self.call("GET", "/v1/dead-letters", params={"limit": 1_000})
        return {
            "documents": [
                some(each, "number", "source", "id", "streams", "reason", "timestamp", "xml")
                for each in letters
            ],
            "deliveries": [
                some(each, "number", "channel", "n", "match_id", "subscription")
                for each in self.call("GET", "/v1/deliveries/dead", params={"limit": 1_000})
            ],
        }

    def written(self) -> list[str]:
        """The ids of the matches in the file, in order."""
        lines = (self.files / "matches.jsonl").read_bytes().splitlines()
        return [json.loads(line)["id"] for line in lines]


def _before(time: str | None, since: str) -> str | None:
    return "new" if time is not None and time >= since else time


def some(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: found[name] for name in names}


@contextmanager
def surroundings() -> Iterator[tuple[Hooks, Site]]:
    """The receivers and feeds of a service; its feeds are requested through a proxy."""
    with Hooks() as hooks, Site() as site, _environment(site.url):
        yield hooks, site


@contextmanager
def _environment(proxy: str) -> Iterator[None]:
    before = dict(os.environ)
    for name in ("NO_PROXY", "HTTP_PROXY"):
        os.environ.pop(name, None)
    os.environ |= {"http_proxy": proxy, "no_proxy": "127.0.0.1", **_MORE}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
