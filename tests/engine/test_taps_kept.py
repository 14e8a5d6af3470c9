"""A state in which event patterns wait, from when the taps of their blocks had other ids."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from broker import Broker, Document

STATES = Path(__file__).parent / "states"
QUERIES = """
a: S/q[./s='x'][./p->p] NEXT {r > p, 5 min} S/q[./s='x'][./p->r];
b: S/q[./s='x'][./p->p] FOLLOWED BY NOT S/q[./s='x'][./p->n] FOLLOWED BY S/q[./s='x'][./p->r]
   WHERE p > 6 AND n < 2 AND r > 6 WITHIN 5 min;
c: S/q[./s='x'][./p->p] FOLD {, r < prev(r, p)} S/q[./s='x'][./p->r] WHERE count(r) = 2;
d: S/q[./s->s][./p->p] FOLLOWED BY {s = t, 1 min} S/q->g[./s->t] FOLLOWED BY NOT S/q[./p > 8]
   WITHIN 20 s
"""


def documents(first: int, behind: int) -> list[Document]:
    return [
        Document(
            f"d{n}",
            timestamp=1_000.0 + n,
            xml=f"<q><s>{'xy'[n % 3 == 0]}</s><p>{n * 7 % 10}</p></q>",
        )
        for n in range(first, behind)
    ]


def make(state: Path) -> None:
    """What the program of version 9 has made; it then went on with `go_on`."""
    with Broker(state, lateness=3) as broker:
        broker.subscribe(QUERIES)
        broker.process(documents(0, 12))


def go_on(state: Path) -> list[list[str]]:
    with Broker(state, lateness=3) as broker:
        return sorted([match.query, match.id] for match in broker.process(documents(12, 30)))


def test_what_waited_is_matched(tmp_path: Path) -> None:
    with tarfile.open(STATES / "version_9_taps.tar.xz") as packed:
        packed.extractall(tmp_path)  # an archive of our own, without links or absolute paths
    wanted = json.loads((STATES / "version_9_taps.json").read_text())
    assert {query for query, _ in wanted} == {"a", "b", "c", "d"}
    assert go_on(tmp_path / "state") == wanted


SHARED = """
first: SELECT x FROM S/b[./k->x] NEXT S/c/k;
second: S/a NEXT S/c/k;
third: S/b FOLLOWED BY (S/d)+ FOLLOWED BY {8 s AFTER} NOT S/e
"""
"""What the state of version 13 has: the first two had one tap for a block of which only the second
one asks for the node; the third has a group that nothing ends."""


def test_what_shared_a_tap_has_one_of_its_own(tmp_path: Path) -> None:
    with tarfile.open(STATES / "version_13_taps.tar.xz") as packed:
        packed.extractall(tmp_path)
    given = [
        Document(f"d{n}", timestamp=1_000.0 + n, xml=xml)
        for n, xml in enumerate(["<b><k>q</k></b>", "<a/>", "<c><k>p</k><k>r</k></c>"] * 4)
    ]
    with Broker(lateness=3) as broker:
        broker.subscribe("\n".join(SHARED.splitlines()[:3]))
        broker.process(given[:5])
        wanted = [(m.query, m.nodes, m.result) for m in broker.process(given[5:])]
    with Broker(tmp_path / "state", lateness=3) as broker:
        found = [(m.query, m.nodes, m.result) for m in broker.process(given[5:])]
        assert found == wanted
        refused = broker.engine.registered_one("third")
        assert refused.status == "suspended"
        assert "group-window" in (refused.reason or "")
    assert {query for query, _, _ in wanted} == {"first", "second"}
