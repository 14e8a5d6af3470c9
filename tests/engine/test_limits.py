"""A subscription that exceeds its limit is suspended, and the others continue."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from broker import Broker
from broker.figures import figures
from broker.model import Limit, Match
from broker.registered import Suspension
from broker.results.publisher import Publisher
from broker.shared_match import SharedMatch
from tests.engine.test_state import PAIR, item
from tests.oracle.generate import Batch, Subscribe, steady
from tests.properties.harness import _document
from tests.seeds import seeds

HOUR = 3_600_000_000
NOON = 1_800_000_000_000_000
EVERY = "every: S//i->x JOIN {1 h} S//i->y;"


def limited(state: Path | None = None, matches: int = 20, period: int = HOUR) -> Broker:
    """A broker all of whose subscriptions are limited."""
    return Broker(state, limit=Limit.of(matches, period))


def both(broker: Broker) -> None:
    """One subscription that runs away, and one that may match much."""
    broker.subscribe(EVERY + PAIR)
    broker.engine.set_limit("pair", Limit.of(10_000, HOUR))


def queries(matches: list[Match]) -> dict[str, int]:
    found: dict[str, int] = {}
    for match in matches:
        found[match.query] = found.get(match.query, 0) + 1
    return found


@pytest.mark.parametrize("size", [1, 3, 50])
def test_a_cross_product_is_suspended_at_an_exact_document(size: int, tmp_path: Path) -> None:
    """The n-th document completes 2 (n - 1) matches: 20 with the fifth, and the sixth is too
    much."""
    documents = [item(n, f"t{n // 2}", seq=n, source="log") for n in range(1, 51)]
    with limited(tmp_path) as broker:
        both(broker)
        found: list[Match] = []
        for start in range(0, 50, size):
            found += broker.process(documents[start : start + size])
        assert queries(found) == {"every": 20, "pair": 24}
        assert max(int(d.id) for m in found if m.query == "every" for d in m.documents) == 5
        assert len(broker.undelivered()) == 44
        one = broker.engine.registered_one("every")
        assert (one.status, one.gaps[-1].first_doc) == ("suspended", 6)
        assert one.reason == "over its limit of 20 matches in 1 h"
        suspensions = broker.engine.take_suspensions()
        assert suspensions == [Suspension("every", one.reason, None)]
        assert figures(broker.engine).suspended == 1
    with limited(tmp_path) as broker:
        # Who took them has not come back to say that the owners know.
        assert broker.engine.take_suspensions() == suspensions
        assert broker.engine.take_suspensions() == []
    with limited(tmp_path) as broker:
        assert broker.engine.take_suspensions() == []
        assert queries(broker.process([item(51, "t25")])) == {"pair": 1}
        broker.engine.resume("every")
        broker.process([item(n, f"u{n}") for n in (60, 61)])
        assert broker.engine.registered_one("every").status == "active"


def test_no_result_is_built_of_what_is_not_published() -> None:
    built: list[str] = []
    match = Publisher.match

    def counted(self: Publisher, subscribers: Any, *rest: Any) -> SharedMatch:
        built.extend(each.id for each in subscribers)
        return match(self, subscribers, *rest)

    broker = limited()
    both(broker)
    with patch.object(Publisher, "match", counted):
        broker.process([item(n, f"t{n // 2}") for n in range(1, 301)])
    assert built.count("every") == 20
    assert built.count("pair") == 149


def test_the_search_ends_soon_after_the_limit() -> None:
    """Of a batch of thousands the one that runs away sees one piece: it cannot fill the memory."""
    broker = limited(matches=100)
    both(broker)
    searched: list[int] = []
    candidates = broker.engine.joiner.candidates

    def counted(rows: Any, *rest: Any) -> Any:
        found = candidates(rows, *rest)
        searched.append(len(found))
        return found

    broker.process([item(n, f"t{n}") for n in range(5)])
    with patch.object(broker.engine.joiner, "candidates", counted):
        found = broker.process([item(n, f"t{n // 2}") for n in range(10, 2_510)])
    assert queries(found) == {"every": 70, "pair": 1_250}
    assert sum(searched) < 1_100_000  # 2,505 documents have 6 million pairs
    assert max(searched[1:]) < 2_000


def test_a_period_begins_with_the_first_match_and_ends() -> None:
    broker = limited(matches=3)
    broker.subscribe("one: S//i")

    def at(number: int, now: int) -> int:
        return len(broker.process([item(number)], now=now / 10**6))

    assert [at(n, NOON + n) for n in range(3)] == [1, 1, 1]
    # The hour is over, and again; a clock set back begins it anew too.
    assert [at(n, NOON + HOUR + n) for n in range(3, 6)] == [1, 1, 1]
    assert [at(n, NOON + 5 * HOUR) for n in range(6, 9)] == [1, 1, 1]
    assert broker.engine.take_suspensions() == []
    assert at(9, NOON + 5 * HOUR) == 0
    assert [each.at for each in broker.engine.take_suspensions()] == [NOON + 5 * HOUR]
    assert broker.engine.registered_one("one").gaps[0].from_time == NOON + 5 * HOUR


def test_a_clock_that_is_set_back_begins_a_period_anew() -> None:
    """A period that ends later than one of now could was begun by a clock that was ahead."""
    broker = limited(matches=3)
    broker.subscribe("one: S//i")

    def at(number: int, now: int) -> int:
        return len(broker.process([item(number)], now=now / 10**6))

    assert [at(n, NOON) for n in range(2)] == [1, 1]
    back = NOON - 60_000_000
    assert [at(n, back) for n in range(2, 5)] == [1, 1, 1]
    assert broker.engine.take_suspensions() == []
    # Forward again, but within the new period: it goes on.
    assert at(5, NOON) == 0
    assert [each.at for each in broker.engine.take_suspensions()] == [NOON]


def test_a_subscription_may_have_a_limit_of_its_own(tmp_path: Path) -> None:
    names = ("low", "high", "plain")
    with Broker(tmp_path) as broker:
        broker.subscribe("".join(EVERY.replace("every", name) for name in names))
        broker.engine.set_limit("low", Limit.of(5, HOUR))
        broker.engine.set_limit("high", Limit.of(50, HOUR))
        with pytest.raises(KeyError):
            broker.engine.set_limit("none", None)
        assert broker.engine.registered_one("low").limit == Limit.of(5, HOUR)
    with Broker(tmp_path, limit=Limit.of(20, HOUR)) as broker:
        assert len(broker.engine.catalog.canonical) == 1
        found = broker.process([item(n, f"t{n}") for n in range(30)])
        assert queries(found) == {"low": 2, "plain": 20, "high": 42}
        assert {s.id for s in broker.engine.take_suspensions()} == set(names)
        firsts = {name: broker.engine.registered_one(name).gaps[0].first_doc for name in names}
        assert firsts == {"low": 3, "plain": 6, "high": 8}
        broker.engine.set_limit("low", None)
        assert broker.engine.registered_one("low").limit is None
        broker.unsubscribe("high")
        assert broker.engine.store.rows("SELECT * FROM limits") == []


def test_who_is_resumed_may_match_as_much_as_at_first() -> None:
    documents = [item(n, "same") for n in range(1, 20)]
    with limited() as broker:
        broker.subscribe(EVERY)
        assert len(broker.process(documents[:9], now=NOON / 10**6)) == 20
        assert broker.engine.registered_one("every").status == "suspended"
        broker.engine.resume("every")
        assert len(broker.process(documents[9:18], now=(NOON + 1) / 10**6)) == 20
        assert broker.engine.registered_one("every").status == "suspended"


def test_the_limit_of_a_subscription_that_has_gone_is_forgotten() -> None:
    with Broker() as broker:
        both(broker)
        assert broker.engine.limits
        with suppress(ZeroDivisionError), broker.engine.store.transaction():
            broker.unsubscribe("pair")
            assert not broker.engine.limits
            raise ZeroDivisionError
        assert broker.engine.registered_one("pair").limit == Limit.of(10_000, HOUR)
        assert broker.engine.limits
        broker.unsubscribe("pair")
        assert not broker.engine.limits


def test_of_a_canonical_query_only_what_matches_counts_for_a_subscriber() -> None:
    """One subscriber's window is so short that it is never over the limit."""
    broker = limited(matches=20)
    broker.subscribe(EVERY + EVERY.replace("every", "short").replace("1 h", "1 s"))
    assert len(broker.engine.catalog.canonical) == 1
    found = broker.process([item(n, f"t{n}", at=n * 1.0) for n in range(10)])
    assert queries(found) == {"every": 20, "short": 18}
    assert [each.id for each in broker.engine.take_suspensions()] == ["every"]


def test_a_query_in_from_that_runs_away_suspends_the_one_around_it() -> None:
    broker = limited(matches=20)
    broker.subscribe(f"out: SELECT t FROM (SELECT x AS t FROM {EVERY[7:-1]})//t->t; " + PAIR)
    found = broker.process([item(n, f"t{n // 2}") for n in range(1, 41)])
    assert queries(found)["pair"] == 19
    assert queries(found).get("out", 0) <= 20
    (suspended,) = broker.engine.take_suspensions()
    assert suspended.id == "out"
    assert broker.engine.registered_one("out").gaps[0].first_doc == 6
    (documents,) = broker.engine.store.rows("SELECT count(*) FROM documents")
    assert documents[0] <= 40 + 20


def test_a_batch_that_fails_suspends_nobody(tmp_path: Path) -> None:
    with limited(tmp_path) as broker:
        both(broker)
        broker.process([item(n, f"t{n // 2}") for n in range(1, 4)])
        later = [item(n, f"t{n // 2}") for n in range(4, 20)]
        broker.engine.store.run("ALTER TABLE outbox RENAME COLUMN match TO other")
        with pytest.raises(Exception, match="match"):
            broker.process(later)
        broker.engine.store.run("ALTER TABLE outbox RENAME COLUMN other TO match")
        assert broker.engine.take_suspensions() == []
        assert broker.engine.registered_one("every").status == "active"
        assert queries(broker.process(later)) == {"every": 14, "pair": 8}
        assert broker.engine.registered_one("every").gaps[0].first_doc == 6


@pytest.mark.parametrize("seed", seeds(4, 20))
def test_limits_change_nothing_for_those_below_them(seed: int) -> None:
    """What comes before the gap is what comes without a limit, whatever the batches."""
    r = Random(seed)
    case = steady(r, "core" if seed % 2 else "full")
    (subscribe, *batches) = case.events
    assert isinstance(subscribe, Subscribe)
    documents = [
        _document(a) for batch in batches if isinstance(batch, Batch) for a in batch.documents
    ]
    free = Broker(memory=case.memory)
    free.subscribe(subscribe.text)
    expected = [free.process([document]) for document in documents]
    bound = limited(matches=r.randint(1, 8))
    bound.subscribe(subscribe.text)
    found: list[Match] = []
    while documents:
        size = r.randint(1, len(documents))
        found += bound.process(documents[:size])
        documents = documents[size:]
    suspended = {s.id for s in bound.engine.take_suspensions()}
    published = {s.publish for s in free.engine.catalog.subscriptions.values() if s.publish}
    counts = queries([m for matches in expected for m in matches])
    for id in bound.subscriptions:
        mine = {m.id for m in found if m.query == id}
        all_of_it = {m.id for matches in expected for m in matches if m.query == id}
        assert mine <= all_of_it
        assert len(mine) <= bound.engine.limits.default.matches  # type: ignore[union-attr]
        if not suspended:
            assert mine == all_of_it
        if id in suspended and not published:
            assert counts[id] > bound.engine.limits.default.matches  # type: ignore[union-attr]


def test_history_keeps_to_the_limit(tmp_path: Path) -> None:
    with limited(tmp_path) as broker:
        broker.process([item(n, f"t{n // 2}") for n in range(1, 41)])
        history = broker.backfill(EVERY + PAIR, 0.0)
        assert queries(history.matches) == {"every": 20, "pair": 19}
        assert history.suspended == ("every",)
        one = broker.engine.registered_one("every")
        assert (one.status, one.first_doc, one.gaps[0].first_doc) == ("suspended", 1, 6)
        assert [each.id for each in broker.engine.take_suspensions()] == ["every"]
        assert queries(broker.process([item(41, "t20")])) == {"pair": 1}


def test_a_dry_run_registers_nothing(tmp_path: Path) -> None:
    with limited(tmp_path) as broker:
        broker.process([item(n, f"t{n // 2}") for n in range(1, 41)])
        history = broker.dry_run(EVERY + PAIR, 30.0)
        assert queries(history.matches) == {"every": 20, "pair": 5}
        assert (history.documents, history.suspended) == (11, ("every",))
        assert queries(broker.dry_run(EVERY, 30.0, most=110).matches) == {"every": 110}
        assert broker.dry_run(EVERY, 1e9).matches == []
        assert broker.subscriptions == {}
        assert broker.undelivered() == []
        assert broker.engine.take_suspensions() == []
        # It sees what is committed, and needs nothing of the engine meanwhile.
        with broker.engine.store.transaction():
            broker.process([item(41, "t20")])
            assert broker.dry_run(PAIR, 39.0).documents == 2
        assert broker.dry_run(PAIR, 39.0).documents == 3


def test_a_limit_is_at_least_one_match() -> None:
    for wrong in ((0, HOUR), (1, 0)):
        with pytest.raises(ValueError, match="at least one match"):
            Limit(*wrong)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_results_complete_counts_at_the_document_that_came_in(size: int) -> None:
    """Results become documents behind all of a batch; how it is cut changes no match."""
    documents = [item(i, str(i)) for i in range(3)]
    broker = Broker(limit=Limit.of(2, 10**15))
    broker.subscribe("o: SELECT r FROM (SELECT t AS k FROM S//i[./t->t])/result[./k->r]")
    found = [m for i in range(0, 3, size) for m in broker.process(documents[i : i + size])]
    assert len(found) == 2
    assert broker.engine.registered_one("o").status == "suspended"


@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 2], [2, 1], [3]])
def test_what_is_too_much_of_one_document_is_left_out_whatever_the_batch(sizes: list[int]) -> None:
    """The last one meets the results of both before it, which is one more than the limit."""
    broker = Broker()
    broker.subscribe("t: S//i[./t = 'a'] PUBLISH t; Q: t/result->r JOIN {1 day} S//i->y[./t = 'z']")
    broker.engine.set_limit("Q", Limit.of(1, 10**15))
    documents = iter([item(number, text) for number, text in enumerate("aaz")])
    found = [m for size in sizes for m in broker.process(list(islice(documents, size)))]
    assert [m.query for m in found] == ["t", "t"]
    stands = broker.engine.registered_one("Q")
    assert stands.status == "suspended"
    last = broker.engine.store.rows("SELECT doc FROM documents WHERE id = '2'")
    assert [(gap.first_doc,) for gap in stands.gaps] == last
