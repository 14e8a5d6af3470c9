"""A state of the library: how it was created, and how a program continues with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from broker import Broker, Document, Match
from broker.model import Limit
from tests.states import documents
from tests.states.documents import Doc

HERE = Path(__file__).parent
Outcome = dict[str, Any]


def _opened(state: Path) -> Broker:
    """Four documents are held in memory: most are read from the state when a value comes again."""
    return Broker(state, timedelta(hours=30), memory=4, lateness_of={"slow": timedelta(minutes=1)})


def _document(doc: Doc, seq: int | None = None) -> Document:
    return Document(doc.id, doc.stream, doc.at, doc.xml, f"log of {doc.stream}", seq, doc.revision)


def _each(broker: Broker, docs: Iterable[Doc]) -> list[Match]:
    """Documents one by one, numbered as their source numbers them."""
    found: list[Match] = []
    for doc in docs:
        seq = broker.engine.applied([f"log of {doc.stream}"])
        found += broker.process([_document(doc, seq + 1)])
    return found


def make(directory: Path) -> Outcome:
    """Make a state in `directory`/state: matches are not acknowledged, documents have expired."""
    state = directory / "state"
    with _opened(state) as broker:
        broker.subscribe((HERE / "first.xscl").read_text(encoding="utf-8"))
        broker.subscribe("limited: SELECT l FROM S//order[./isbn->l]")
        broker.engine.set_limit("limited", Limit(3, 3_600))
        _each(broker, [Doc("early", -10_000, "<alarm/>"), Doc("early2", -9_999, "<alarm/>")])
        broker.engine.pause("resumed")
        acknowledged = _each(broker, documents.FIRST)
        broker.acknowledge(acknowledged[: len(acknowledged) // 2])
        broker.engine.resume("resumed")
        for _ in range(2):
            broker.engine.pause("paused", "for a while")
            broker.engine.resume("paused")
        broker.engine.pause("paused")
        broker.unsubscribe("dropped")
        broker.subscribe((HERE / "later.xscl").read_text(encoding="utf-8"))
    with _opened(state) as broker:
        broker.process([_document(doc) for doc in documents.SECOND])
        broker.process([_document(doc) for doc in documents.EDITED])
        broker.backfill((HERE / "history.xscl").read_text(encoding="utf-8"), 0)
        broker.engine.store.checkpoint()
        _each(broker, documents.SAME)
        # As it is now, with its last batches in the write-ahead log: as if the process were killed.
        shutil.copytree(state, directory / "killed")
    shutil.rmtree(state)
    (directory / "killed").rename(state)
    return {"acknowledged": sorted(m.id for m in acknowledged[: len(acknowledged) // 2])}


def go_on(state: Path, made: Outcome, directory: Path) -> Outcome:
    """Continue with a copy of a kept state; returns its results. Raises AssertionError if something
    came twice."""
    here = directory / "state"
    shutil.copytree(state, here)
    with _opened(here) as broker:
        before = broker.undelivered()
        assert not {m.id for m in before} & set(made["acknowledged"])
        outcome = {"at first": _said(broker, before)}
    with _opened(here) as broker:
        assert broker.undelivered() == before
        assert broker.process([_document(doc) for doc in documents.FIRST + documents.SECOND]) == []
        texts = broker.subscriptions
        broker.subscribe((HERE / "later.xscl").read_text(encoding="utf-8"))
        assert broker.subscriptions == texts
        broker.subscribe(
            "sold-new: " + texts["sold-oslo"].partition(":")[2].replace("'Oslo'", "'Rome'")
        )
        broker.backfill("history-new: SELECT k FROM S//book[@isbn->k][./price > 10]", 0)
        for name in ("paused", "limited"):
            broker.engine.resume(name)
        broker.engine.pause("sold-rome")
        broker.unsubscribe("fog")
        found = _each(broker, documents.WAITING)
        found += broker.process([_document(doc) for doc in documents.THEN])
        history = len(broker.undelivered()) - len(before) - len(found)
        assert history > 0
        outcome["then"] = _said(broker, found) | {"history": history}
        ids = [m.id for m in broker.undelivered()]
        assert len(set(ids)) == len(ids), "a match was found twice"
        assert not set(ids) & set(made["acknowledged"])
    with _opened(here) as broker:
        assert [m.id for m in broker.undelivered()] == ids
        assert _said(broker, found) | {"history": history} == outcome["then"]
        broker.acknowledge(ids)
        assert broker.undelivered() == []
    return outcome


def _said(broker: Broker, matches: list[Match]) -> Outcome:
    engine = broker.engine
    return {
        "matches": {m.id: m.to_json() for m in matches},
        "subscriptions": {
            each.id: {
                "text": each.text,
                "status": each.status,
                "first_doc": each.first_doc,
                "reason": each.reason,
                "gaps": [[gap.status, gap.reason, gap.first_doc, gap.to_doc] for gap in each.gaps],
                "limit": each.limit and [each.limit.matches, each.limit.microseconds],
            }
            for each in engine.registered()
        },
        "dead letters": [
            [each.number, each.source, each.id, list(each.streams), each.reason, each.timestamp]
            for each in broker.dead_letters()
        ],
        "applied": [engine.applied([f"log of {stream}"]) for stream in ("S", "T", "slow")],
        "newest": engine.newest(),
        "next document": engine.admission.next_doc,
    }
