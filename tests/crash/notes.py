"""Records of a process for the final check: the document numbers at certain moments.

A life of a process begins at a document, and what counts anew with each process begins there.
History ends at a document, and items counted in it as they were then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def take_notes(path: str) -> None:
    """Record notes in this process from now on. Each line is written at once, so it survives a
    kill."""
    from broker import backfill
    from broker.documents.ahead import Ahead
    from broker.service.core.core import Core
    from broker.state.logged_documents import with_bytes
    from feeds import packs

    packs.KEPT = 2
    begin, look_back, witness = Core.__init__, backfill.backfill, Ahead.arrivals

    def note(**what: object) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(handle, json.dumps(what).encode() + b"\n")
        os.close(handle)

    def begun(self: Core, *args: Any, **named: Any) -> None:
        begin(self, *args, **named)
        note(what="begun", doc=self.engine.admission.next_doc)

    def looked_back(engine: Any, compiled: Any, *args: Any, **named: Any) -> Any:
        fresh = [query.id for query in engine.registry.fresh(compiled)]
        done = look_back(engine, compiled, *args, **named)
        for id in fresh:
            rows = engine.store.rows(
                "SELECT source, id, xml FROM documents WHERE NOT starts_with(source, 'post:')"
            )
            rows = with_bytes(engine.store, rows, 2)
            items = [(source, item, xml.decode()) for source, item, xml in rows]
            note(what="backfilled", id=id, doc=engine.admission.next_doc, items=items)
        return done

    def witnessed(self: Ahead, rows: Any) -> Any:
        before = self.taken
        done = witness(self, rows)
        if self.taken > before:
            note(what="apart")
        return done

    Core.__init__ = begun  # type: ignore[method-assign]
    Ahead.arrivals = witnessed  # type: ignore[method-assign]
    backfill.backfill = looked_back


def lives(path: Path) -> list[int]:
    """The documents at which processes began."""
    return sorted(line["doc"] for line in _lines(path) if line["what"] == "begun")


def apart(path: Path) -> int:
    """Batches whose stage 1 the second process did."""
    return sum(line["what"] == "apart" for line in _lines(path))


@dataclass(frozen=True, slots=True)
class Past:
    """History up to the document of a number, and the texts of items at that moment."""

    doc: int = 0
    items: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)


def backfilled(path: Path, id: str) -> Past:
    """The last history of a subscription."""
    *_, last = (line for line in _lines(path) if line.get("id") == id)
    return Past(last["doc"], {(source, item): text for source, item, text in last["items"]})


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="ascii").splitlines():
        yield json.loads(line)
