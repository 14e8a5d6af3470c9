"""A kept state of a service: how it was created, and how a service continues with it.

`make` is run once with the program of a version, which then also says what follows (`go_on`). Each
later program opens a copy of the state, and has to say the same.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tests.crash.plain import Plain
from tests.crash.points import Aim
from tests.crash.webhooks import SECRET
from tests.states import documents
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
_SOON = {"allow_private": True, "schedule": ["5 ms"] * 3}
_PATIENT = {"allow_private": True, "schedule": ["1 s"] * 1000}
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
                _some(each, "url", "address", "title", "status")
                for each in self.call("GET", "/v1/feeds")
            ],
        }

    def channels(self) -> dict[str, Any]:
        wanted = ("kind", "subscription", "settings", "ordered", "status", "reason", "waiting")
        found = {each["name"]: each for each in self.call("GET", "/v1/channels")}
        return {name: _some(each, *wanted) for name, each in found.items()}

    def aside(self) -> Outcome:
        """The dead letters: documents and deliveries."""
        letters = self.call("GET", "/v1/dead-letters", params={"limit": 1_000})
        return {
            "documents": [
                _some(each, "number", "source", "id", "streams", "reason", "timestamp", "xml")
                for each in letters
            ],
            "deliveries": [
                _some(each, "number", "channel", "n", "match_id", "subscription")
                for each in self.call("GET", "/v1/deliveries/dead", params={"limit": 1_000})
            ],
        }

    def written(self) -> list[str]:
        """The ids of the matches in the file, in order."""
        lines = (self.files / "matches.jsonl").read_bytes().splitlines()
        return [json.loads(line)["id"] for line in lines]


def _before(time: str | None, since: str) -> str | None:
    return "new" if time is not None and time >= since else time


def _some(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: found[name] for name in names}


@contextmanager
def _hosts() -> Iterator[tuple[Hooks, Site]]:
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


# -- a state is made -------------------------------------------------------------------------------


def make(directory: Path) -> Outcome:
    """Make a state in `directory`/state, and say what was delivered of it. It was killed: some
    documents are accepted and not matched, some matches found and not in the log."""
    with _hosts() as hosts:
        with Service(directory, *hosts, _SOON) as own:
            own.hooks.refusing = {"dead"}
            own.served.start()
            _grow(own)
            assert own.served.stop() == 0
        with Service(directory, *hosts, _PATIENT) as own:
            _leave(own)
        return {"hooks": own.hooks.url, "files": str(own.files)}


def _leave(own: Service) -> None:
    own.hooks.refusing = {"dead", "desk", "loose"}
    own.served.start()
    own.publish(documents.SAME)
    own.publish([documents.order("last", 130, "b103", "Oslo", 9)])
    own.plain.drained()
    own.plain.wait(lambda: own.call("GET", "/v1/channels/desk")["attempts"])
    assert own.served.stop() == 0
    own.served.start(Aim("batch done"))
    with suppress(httpx.TransportError):
        own.post("S", documents.WAITING)
    assert own.served.exited(60)
    assert own.served.struck()


def _grow(own: Service) -> None:
    own.call("POST", "/v1/feeds", json={"url": GANNET, "allow_private": True})
    own.subscribe("first.xscl")
    own.subscribe(
        "limited: SELECT l FROM S//order[./isbn->l]", limit={"matches": 3, "period": "36500 days"}
    )
    own.subscribe(
        "bounded: SELECT l FROM S//order[./isbn->l]", limit={"matches": 900, "period": "36500 days"}
    )
    own.subscribe(
        "seldom: SELECT l AS isbn FROM S//order[./isbn->l]",
        throttle={"variable": "l", "period": "2 h"},
    )
    file = {"path": str(own.files / "matches.jsonl"), "format": "jsonl"}
    own.call("PUT", "/v1/channels/file", json={"kind": "file", "settings": file})
    own.call("PUT", "/v1/channels/pull", json={"kind": "pull", "subscription": "far"})
    own.hook("desk", "desk", subscription="sold-oslo")
    own.hook("loose", "loose", ordered=False)
    own.hook("dead", "dead", subscription="pairs")
    own.hook("halted", "halted", subscription="tide")
    own.call("POST", "/v1/channels/halted/pause")
    own.call("POST", "/v1/subscriptions/resumed/pause")
    own.looked()
    own.publish(documents.FIRST)
    own.delivered()
    (first, *_) = own.pulled()
    own.call("POST", "/v1/channels/pull/ack", json={"n": first})
    own.call("POST", "/v1/subscriptions/resumed/resume")
    own.call("POST", "/v1/subscriptions/paused/pause")
    own.call("POST", "/v1/subscriptions/paused/resume")
    own.call("POST", "/v1/subscriptions/paused/pause")
    own.call("DELETE", "/v1/subscriptions/dropped")
    own.subscribe("later.xscl")
    own.publish(documents.SECOND)
    own.delivered()
    for doc in documents.EDITED:
        own.post(doc.stream, [doc])
        own.plain.drained()
    own.subscribe("history.xscl", backfill="INFINITY")
    own.delivered()


# -- a state goes on -------------------------------------------------------------------------------


def go_on(state: Path, made: Outcome, directory: Path) -> Outcome:
    """Go on with a copy of a kept state, and what there is to say about it.

    Raises AssertionError where something came twice, or out of order.
    """
    with _hosts() as hosts, Service(directory, *hosts, _PATIENT) as own:
        shutil.copytree(state, own.state)
        kept = own.files / "matches.jsonl"
        (own.state / kept.name).rename(kept)
        _replace(own.state, {made["hooks"]: own.hooks.url, made["files"]: str(own.files)})
        before, since = own.written(), datetime.now(UTC).isoformat()
        own.served.start()
        own.delivered()
        own.looked()
        outcome: Outcome = {"at first": _said(own, since) | own.described(since) | {"file": before}}
        own.news()
        _then(own)
        own.delivered()
        outcome["then"] = _said(own, since) | own.described(since)
        for id, match in outcome["at first"]["log"].items():
            assert outcome["then"]["log"].pop(id) == match, "a match has changed"
        log = {each["id"] for each in own.served.matches()}
        assert own.served.stop() == 0
        own.served.start()
        own.delivered()
        assert {each["id"] for each in own.served.matches()} == log
        assert (again := own.described(since)) == {name: outcome["then"][name] for name in again}
        delivered = own.written()
        assert delivered[: len(before)] == before
        assert len(set(delivered)) == len(delivered), "a match stands in the file twice"
        # A throttle leaves matches out of what is delivered, and of the log: both hold the same.
        assert set(delivered) == log
        for path, got in own.hooks.got.items():
            assert len(set(got)) == len(got), f"{path} was given a match twice"
            assert path == "loose" or got == sorted(got), f"{path} was given matches out of order"
        outcome["delivered"] = {
            path: sorted(id for _, id in got) for path, got in own.hooks.got.items()
        }
        text = json.dumps(outcome).replace(own.hooks.url, "HOOKS").replace(str(own.files), "FILES")
        found: Outcome = json.loads(text)
        return found


def _then(own: Service) -> None:
    """Operations of users on a service, and further documents."""
    assert [each["outcome"] for each in own.subscribe("later.xscl")] == ["unchanged"] * 4
    own.subscribe(
        "sold-new: S//book->b[@isbn->k][./price > 40] FOLLOWED BY {k = l, 2 days}"
        " S//order->o[./isbn->l][./city = 'Oslo'];"
        "near: SELECT t FROM S//book[./title->t] FOLLOWED BY {t = u, 12 h} S//post[./title->u]"
    )
    own.subscribe(
        "history-new: SELECT k, l FROM S//book[@isbn->k] FOLLOWED BY {k = l, 2 days} "
        "S//order[./isbn->l]",
        backfill="INFINITY",
    )
    for name in ("paused", "limited"):
        own.call("POST", f"/v1/subscriptions/{name}/resume")
    own.call("POST", "/v1/subscriptions/sold-rome/pause")
    own.call("DELETE", "/v1/subscriptions/fog")
    own.call("POST", "/v1/channels/halted/resume")
    assert own.publish(documents.KNOWN) == len(documents.KNOWN)
    own.publish(documents.THEN[:2])
    own.plain.drained()
    own.publish([dataclasses.replace(documents.THEN[0], revision=True)])
    own.plain.drained()
    own.publish(documents.THEN[2:])


def _said(own: Service, since: str) -> Outcome:
    """What is in the log and what is set up. Of what is new since a moment neither number nor time
    is told: the matches of one document have no order of their own."""
    log = own.served.matches()
    numbers = [each["n"] for each in log]
    assert numbers == sorted(set(numbers))
    matches: dict[str, Any] = {}
    for each in log:
        assert each["id"] not in matches, "a match is in the log twice"
        matches[each.pop("id")] = _timeless(each, "n", "taken", since)
    events = own.call("GET", "/v1/events", params={"limit": 1_000})
    # That a channel works again is told if it had failed for long: so that depends on today.
    events = [e for e in events if e["at"] < since or e["kind"] != "channel.recovered"]
    return {
        "log": matches,
        "events": [_timeless(each, "number", "at", since) for each in events],
        "channels": own.channels(),
        "pull": sorted(own.pulled()),
        **own.aside(),
    }


def _timeless(told: dict[str, Any], number: str, at: str, since: str) -> dict[str, Any]:
    if told[at] < since:
        return told
    return {name: value for name, value in told.items() if name not in (number, at)}


def _replace(state: Path, texts: dict[str, str]) -> None:
    """Put other texts in the place of some, wherever they stand in the mailbox: the addresses of
    what a test has made."""
    with closing(sqlite3.connect(state / "mailbox.sqlite")) as db:
        tables = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            columns = [
                row[1] for row in db.execute(f'PRAGMA table_info("{table}")') if row[2] == "TEXT"
            ]
            for column in columns:
                for old, new in texts.items():
                    db.execute(
                        f'UPDATE "{table}" SET "{column}" = replace("{column}", ?, ?)', (old, new)
                    )
        db.commit()
