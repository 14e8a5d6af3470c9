"""A kept state of a service: how it was created, and how a service continues with it.

`make` is run once with the program of a version, which then also says what follows (`go_on`). Each
later program opens a copy of the state, and has to say the same.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tests.crash.points import Aim
from tests.states import documents
from tests.states.hosts import GANNET
from tests.states.served import Outcome, Service, surroundings

_SOON = {"allow_private": True, "schedule": ["5 ms"] * 3}
_PATIENT = {"allow_private": True, "schedule": ["1 s"] * 1000}


# -- a state is made -------------------------------------------------------------------------------


def make(directory: Path) -> Outcome:
    """Make a state in `directory`/state, and say what was delivered of it. It was killed: some
    documents are accepted and not matched, some matches found and not in the log."""
    with surroundings() as given:
        with Service(directory, *given, _SOON) as own:
            own.hooks.refusing = {"dead"}
            own.served.start()
            _grow(own)
            assert own.served.stop() == 0
        with Service(directory, *given, _PATIENT) as own:
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
    with surroundings() as given, Service(directory, *given, _PATIENT) as own:
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
