"""A transaction that fails leaves no trace, in the file or in memory; with space again the engine
continues.

The disk is full by a limit on the size of files, under which DuckDB gets the error that a full disk
gives it.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import duckdb
import pytest

from broker import Broker
from broker.figures import figures
from broker.model import Limit, Match
from tests.engine.test_state import PAIR, item, pairs
from tests.seeds import seeds
from tests.waiting import PATIENCE, until

HOUR = 3_600_000_000
TEXTS = [
    "pair: S//i->x[./t->t] FOLLOWED BY {t = u, 1 h} S//i->y[./t->u]",
    "pair: S//i->x[./t->t] FOLLOWED BY {t = u, 2 h} S//i->y[./t->u]",
    "same: S//i->x[./t->t] FOLLOWED BY {t = u, 1 h} S//i->y[./t->u]",
    "more: S//i->x[./t->t] JOIN {t != u, 40 s} S//i->y[./t->u]",
    "told: SELECT t AS title FROM S//i->x[./t->t] WHERE t = 't1' PUBLISH teas",
    "again: teas//title->a JOIN {a = b, 1 min} teas//title->b",
    "inner: (SELECT t AS t FROM S//i->x[./t->t])//t->a JOIN {1 min} S//i->b",
    "most: S//i->x JOIN {1 h} S//i->y",
]


@contextmanager
def full_disk(state: Path, room: int = 40) -> Iterator[None]:
    """Nothing can be written beyond what the log has, but for `room` bytes."""
    log = state / "broker.duckdb.wal"
    size = log.stat().st_size if log.exists() else 0
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def test_a_batch_under_a_full_disk_has_not_happened(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        broker.process([item(1, seq=1)])
        for _ in range(3):
            with full_disk(tmp_path), pytest.raises(duckdb.Error, match="File too large"):
                broker.process([item(2, seq=2)])
        assert pairs(broker.process([item(2, seq=2)])) == {("1", "2")}
        assert len(broker.undelivered()) == 1


def test_longer_patterns_go_on_after_a_batch_that_failed(tmp_path: Path) -> None:
    """Their parameters are in a table of the transaction, too."""
    blocks = [f"S//i->x{n}[./t->t{n}]" for n in range(3)]
    chain = f"{blocks[0]} FOLLOWED BY {{t0 = t1, 1 h}} {blocks[1]}"
    with Broker(tmp_path) as broker:
        broker.subscribe(f"chain: {chain} FOLLOWED BY {{t1 = t2, 1 h}} {blocks[2]}")
        broker.process([item(1, seq=1)])
        broker.process([item(2, seq=2)])
        with full_disk(tmp_path), pytest.raises(duckdb.Error, match="File too large"):
            broker.process([item(3, seq=3)])
        (match,) = broker.process([item(3, seq=3)])
        assert [document.id for document in match.documents] == ["1", "2", "3"]


def test_a_registration_under_a_full_disk_has_not_happened(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        with full_disk(tmp_path), pytest.raises(duckdb.Error, match="File too large"):
            broker.subscribe(PAIR.replace("1 h", "2 h") + "other: S//i->x")
        assert list(broker.subscriptions) == ["pair"]
        assert "1 h" in broker.subscriptions["pair"]
        assert broker.engine.catalog.subscriptions.keys() == {"pair"}
        assert broker.engine.matcher.edges.keys() == broker.engine.catalog.edges.keys()
        broker.subscribe("other: S//i->x")
        found = broker.process([item(1), item(2)])
        assert sorted(m.query for m in found) == ["other", "other", "pair"]
    with Broker(tmp_path) as broker:
        assert broker.engine.store.rows("SELECT count(*) FROM variables") == [
            (len(broker.engine.catalog.variables),)
        ]
        assert sorted(m.query for m in broker.process([item(3)])) == ["other", "pair", "pair"]


def test_a_failed_checkpoint_is_got_over(tmp_path: Path) -> None:
    """DuckDB gives up on its file then; what was committed is in it, and it is opened again."""
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        broker.process([item(n, f"t{n}") for n in range(3_000)])
        broker.engine.store.run("SET checkpoint_threshold = '1KB'")
        with full_disk(tmp_path, 4_096), pytest.raises(duckdb.Error):
            broker.process([item(3_000, "t1", seq=1)])
        if not broker.engine.store.broken:
            with full_disk(tmp_path, -100), pytest.raises(duckdb.Error):
                broker.engine.store.checkpoint()
        assert broker.engine.store.broken
        # Whether the batch was committed before the checkpoint failed: it is there once.
        broker.process([item(3_000, "t1", seq=1)])
        assert [d.id for m in broker.undelivered() for d in m.documents] == ["1", "3000"]
        assert not broker.engine.store.broken
        assert pairs(broker.process([item(3_001, "t2")])) == {("2", "3001")}
    with Broker(tmp_path) as broker:
        assert len(broker.undelivered()) == 2


def test_a_checkpoint_waits_for_those_who_read_what_was_changed(tmp_path: Path) -> None:
    with Broker(tmp_path / "state") as broker:
        broker.process([item(n, f"t{n}") for n in range(3)])
        store = broker.engine.store
        with store.snapshot() as statements:
            before = statements.count("SELECT count(*) FROM documents")
            with store.transaction():
                store.set_numbers(version=store.number("version", 0))
            with pytest.raises(duckdb.TransactionException):
                store.checkpoint(patience=0)
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(store.checkpoint, PATIENCE)
                until(waiting.running)
                assert statements.count("SELECT count(*) FROM documents") == before
                statements.run("ROLLBACK")  # as at the end of the block
                waiting.result(PATIENCE)


class Twin:
    """Two brokers that are asked the same; for one the disk is full now and then."""

    def __init__(self, r: Random, tmp_path: Path) -> None:
        self.r = r
        self.state = tmp_path / "failing"
        limit = Limit.of(25, HOUR)
        self.failing = Broker(self.state, lateness=HOUR / 10**6, limit=limit)
        self.sound = Broker(tmp_path / "sound", lateness=HOUR / 10**6, limit=limit)
        self.failed = 0

    def both(self, ask: Callable[[Broker], object]) -> None:
        before = self._seen(self.failing)
        expected = ask(self.sound)
        try:
            with full_disk(self.state, self.r.choice((0, 60, 10**9))):
                answer = ask(self.failing)
        except duckdb.Error:
            self.failed += 1
            assert self._seen(self.failing) == before
            answer = ask(self.failing)
        assert answer == expected
        assert self._seen(self.failing) == self._seen(self.sound)

    @staticmethod
    def _seen(broker: Broker) -> object:
        engine = broker.engine
        seen = replace(figures(engine), canonical=0, templates=0, variables=0)
        counts = [(c.windows(), c.first_doc()) for c in engine.catalog.canonical.values()]
        return (
            engine.registered(),
            seen,
            sorted(counts),
            engine.catalog.published,
            dict(+engine.catalog.read),
            len(engine.matcher.edges),
            [m.id for m in broker.undelivered(10**6)],
            engine.letters(),
        )


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_whatever_fails_is_as_if_it_had_not_been_tried(seed: int, tmp_path: Path) -> None:
    r = Random(seed)
    twin = Twin(r, tmp_path)
    number = 0

    def told(matches: list[Match]) -> list[tuple[str, str]]:
        return sorted((m.id, m.result) for m in matches)

    for _ in range(35):
        known = [*twin.sound.subscriptions]
        what = r.choice(["in", "out", "pause", "resume", "limit", "history", *["documents"] * 4])
        if what == "documents":
            batch = [
                item(n, f"t{r.randint(0, 3)}", at=n * 20.0, seq=n, source="log")
                for n in range(number + 1, number + r.randint(2, 9))
            ]
            if r.randint(0, 5) == 0:
                batch.append(replace(batch[0], id=f"broken {number}", xml="<i>", seq=None))
            number += len(batch)
            twin.both(lambda broker, batch=batch: told(broker.process(batch)))  # type: ignore[misc]
        elif what == "in":
            text = ";".join({t.split(":")[0]: t for t in r.sample(TEXTS, 2)}.values())
            twin.both(lambda broker, text=text: broker.subscribe(text))  # type: ignore[misc]
        elif what == "history":
            text = r.choice(TEXTS[:6])
            since = max(0.0, (number - 8) * 20.0)
            twin.both(
                lambda broker, text=text, since=since: told(broker.backfill(text, since).matches)  # type: ignore[misc]
            )
        elif known:
            id = r.choice(known)
            limit = Limit.of(r.randint(1, 9), HOUR)
            twin.both(
                lambda broker, id=id, what=what, limit=limit: {  # type: ignore[misc]
                    "out": lambda: broker.unsubscribe(id),
                    "pause": lambda: broker.engine.pause(id),
                    "resume": lambda: broker.engine.resume(id),
                    "limit": lambda: broker.engine.set_limit(id, limit),
                }[what]()
            )
    assert twin.failed > 3
    told_of = twin.sound.engine.take_suspensions()
    assert twin.failing.engine.take_suspensions() == told_of
    before = twin._seen(twin.sound)
    twin.failing.close()
    twin.sound.close()
    answers = []
    for state in (twin.state, tmp_path / "sound"):
        with Broker(state, lateness=HOUR / 10**6) as again:
            assert twin._seen(again) == before
            batch = [item(n, "t1", at=n * 20.0) for n in (number + 1, number + 2)]
            answers.append(told(again.process(batch)))
    assert answers[0] == answers[1]
