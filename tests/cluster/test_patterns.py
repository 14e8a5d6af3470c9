"""Event patterns in shards: as on one machine, and as the oracle says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document, Match
from broker.cluster.remote import RemoteShards
from broker.cluster.sharded import ShardedEngine
from broker.engine import Engine
from broker.model import Budgets, Limit
from broker.state.store import Store
from tests.cluster.brokers import sharded
from tests.cluster.deep import failure, random_case
from tests.cluster.processes import forking
from tests.cluster.test_here import told
from tests.cluster.test_variants import held
from tests.seeds import seeds

LATENESS = 20.0
QUERIES = (
    "next: SELECT k FROM S/a[./k->k] NEXT {k = l, 1 min} S/a[./k->l];"
    "fold: S/a[./v->v] FOLD {, w >= prev(w, v)} S/a[./v->w] WITHIN 1 min;"
    "not: S/a[./k->k] FOLLOWED BY {30} NOT S/b[./k->l];"
    "group: S/a[./k->k] FOLLOWED BY {40} (S/b)+;"
    "parts: S/a FOLLOWED BY {1 min} S/b PARTITION BY ./k USING NON OVERLAPPING;"
    "start: S/a FOLLOWED BY {1 min} S/b FOLLOWED BY {1 min} S/a USING ONE PER START;"
    "made: SELECT k FROM S/a[./k->k] FOLLOWED BY {30} NOT S/c PUBLISH out;"
    "reads: out//k->x JOIN {x = y, 1 h} S/b[./k->y];"
    "same: S/a->x;"
)


def stream(count: int, seed: int = 1) -> list[Document]:
    """Documents half a minute behind each other at most, some of them late, some revised."""
    r = Random(seed)
    found = []
    for n in range(count):
        tag = r.choice("aabbc")
        xml = f"<{tag}><k>{r.randint(0, 2)}</k><v>{r.randint(0, 5)}</v></{tag}>"
        found.append(Document(str(n), "S", 10.0 * n - r.choice((0, 0, 15)), xml))
        if n > 3 and r.random() < 0.15:
            old = found[-3]
            text = str(old.xml).replace("<k>0", "<k>1")
            found.append(Document(old.id, "S", old.timestamp, text, revision=True))
    return found


def batches(count: int, size: int, seed: int = 1) -> list[list[Document]]:
    documents = stream(count * size, seed)
    return [documents[at : at + size] for at in range(0, len(documents), size)]


@pytest.mark.parametrize("level", ["patterns", "tied", "several"])
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_random_patterns_in_shards_equal_the_oracle(level: str, seed: int) -> None:
    assert not (found := failure(random_case(Random(8000 + seed), level), seed)), found


def test_a_state_goes_on_with_and_without_shards(tmp_path: Path) -> None:
    """What patterns wait for and have kept is in the state, however many shards match them."""
    state = tmp_path / "state"

    def alone() -> Broker:
        return Broker(state, lateness=LATENESS)

    def divided(count: int) -> Callable[[], Broker]:
        return lambda: sharded(tmp_path / "shared", count, state, lateness=20_000_000)

    found: list[list[tuple[str, ...]]] = []
    wanted: list[list[tuple[str, ...]]] = []
    parts = batches(12, 10)
    ways = (divided(2), divided(3), alone, divided(1), alone, divided(4))
    with Broker(lateness=LATENESS) as one:
        one.subscribe(QUERIES)
        for number, way in enumerate(ways):
            with way() as many:
                many.subscribe(QUERIES)
                for part in parts[2 * number : 2 * number + 2]:
                    found.append(told(many.process(part)))
                    wanted.append(told(one.process(part)))
    assert found == wanted
    matched = {name for part in wanted for name, *_ in part}
    assert matched == {"next", "fold", "not", "group", "parts", "start", "made", "reads", "same"}


def ways(broker: Broker) -> dict[str, str]:
    """Of each event pattern that shards match, which way its documents go."""
    assert isinstance(broker.engine, ShardedEngine)
    routes = broker.engine.cluster.home.patterns
    found: dict[str, str] = {}
    for each in broker.engine.catalog.patterns.values():
        (found[each.id],) = {part.by for part in routes[each.canonical.number].parts}
    return found


def test_a_pattern_is_divided_by_what_ties_it_or_has_a_home(tmp_path: Path) -> None:
    with sharded(tmp_path, 3) as broker:
        broker.subscribe(QUERIES)
        broker.process(stream(30))
        found = ways(broker)
        assert {id for id, way in found.items() if way == "key"} == {"next", "parts"}
        assert len(found) == 7
        assert not [*broker.engine.standings.awake()]


TIED = (
    "next: SELECT k FROM S/a[./k->k] NEXT {k = l, 1 min} S/a[./k->l];"
    "parts: S/a FOLLOWED BY {1 min} S/b PARTITION BY ./k USING NON OVERLAPPING;"
    "lacks: S/a[./k->k] FOLLOWED BY {k = l, 40} NOT S/b[./k->l];"
)


def keyed(begin: int, end: int) -> list[Document]:
    """Documents of ten keys."""
    return [
        Document(str(n), "S", 10.0 * n, f"<{'aab'[n % 3]}><k>{n * n % 10}</k></{'aab'[n % 3]}>")
        for n in range(begin, end)
    ]


def test_each_shard_matches_its_part_of_the_values(tmp_path: Path) -> None:
    with Broker(lateness=0) as alone, sharded(tmp_path, 3, lateness=0) as many:
        for broker in (alone, many):
            broker.subscribe(TIED)
        for begin in range(0, 60, 20):
            documents = keyed(begin, begin + 20)
            assert told(many.process(documents)) == told(alone.process(documents))
        assert {*ways(many).values()} == {"key"}
        assert isinstance(many.engine, ShardedEngine)
        assert all(shard.matches for shard in many.engine.cluster.load.shards)


@pytest.mark.parametrize("lost", [False, True])
def test_a_document_with_several_values_ends_a_tie(lost: bool, tmp_path: Path) -> None:
    """Where it matters: whose SELECT names the value finds a match for each. It stays so after a
    restart, also where the shared files are lost."""
    two = Document("two", "S", 205.0, "<a><k>1</k><k>5</k></a>")
    with Broker(lateness=0) as alone:
        alone.subscribe(TIED)
        for number in range(2):
            shared = tmp_path / (f"shared{number}" if lost else "shared")
            with sharded(shared, 3, tmp_path / "state", lateness=0) as many:
                many.subscribe(TIED)
                for documents in (
                    ([*keyed(0, 20)], [*keyed(20, 21), two, *keyed(21, 30)])
                    if number == 0
                    else ([*keyed(30, 50)],)
                ):
                    expected = {"key"} if documents[0].id == "0" else {"key", "home"}
                    assert told(many.process(documents)) == told(alone.process(documents))
                    assert {*ways(many).values()} == expected
                assert ways(many) == {"next": "key", "parts": "home", "lacks": "home"}


def test_shards_know_a_pattern_once(tmp_path: Path) -> None:
    """However many subscribe to it, each of whom has its own matches."""
    text = "SELECT k FROM S/a[./k->k] NEXT {k = l, 1 min} S/a[./k->l]"
    with Broker(lateness=0) as alone, sharded(tmp_path, 2, lateness=0) as many:
        for begin in range(0, 60, 20):
            for broker in (alone, many):
                broker.subscribe("".join(f"s{begin + n}: {text};" for n in range(20)))
                if begin:
                    broker.engine.unsubscribe(*[f"s{begin - n}" for n in range(20, 10, -1)])
                    broker.pause(f"s{begin - 1}")
            documents = keyed(begin, begin + 20)
            found = [broker.process(documents) for broker in (many, alone)]
            assert told(found[0]) == told(found[1])
            assert {match.id for match in found[0]} == {match.id for match in found[1]}
        assert len({match.query for match in found[0]}) == 20 + 2 * 9
        assert many.waiting() == alone.waiting()
        # Those of each round know other documents; and there is the block.
        assert held(many) == [3 + 1, 3 + 1]


def test_what_waits_is_told_and_decided_as_on_one_machine(tmp_path: Path) -> None:
    told_of: list[object] = []
    for broker in (Broker(lateness=LATENESS), sharded(tmp_path, 3, lateness=20_000_000)):
        with broker:
            broker.subscribe(QUERIES)
            found: list[object] = [told(broker.process(stream(25)))]
            waiting = broker.waiting()
            found += [waiting, told(broker.decide()), [w for w in broker.waiting() if w.decides]]
            assert waiting
            assert found[2]
            told_of.append(found)
    assert told_of[0] == told_of[1]


@pytest.mark.parametrize("common", [None, Limit.of(3, 3_600_000_000)])
def test_a_limit_stops_a_pattern_at_the_same_document(common: Limit | None, tmp_path: Path) -> None:
    told_of: list[list[object]] = []
    alone = Broker.over(Engine(Store(None), 20_000_000, limit=common))
    for broker in (alone, sharded(tmp_path, 3, lateness=20_000_000, limit=common)):
        with broker:
            broker.subscribe(QUERIES)
            own: list[object] = []
            for number, part in enumerate(batches(4, 12)):
                own.append(told(broker.process(part)))
                own.append(sorted((s.id, s.reason) for s in broker.engine.take_suspensions()))
                if number == 0:
                    broker.engine.set_limit("not", Limit.of(1, 3_600_000_000))
            told_of.append(own)
    assert told_of[0] == told_of[1]
    assert any(told_of[0][1::2]), "nothing was suspended"


def test_a_pattern_that_is_too_much_is_stopped_at_the_same_document(tmp_path: Path) -> None:
    bounds = Budgets(combinations=2)
    told_of: list[object] = []
    alone = Broker.over(Engine(Store(None), 20_000_000, budgets=bounds))
    for broker in (alone, sharded(tmp_path, 3, lateness=20_000_000, budgets=bounds)):
        with broker:
            broker.subscribe(
                "many: (S/a)+ FOLLOWED BY {10 min} S/b USING SKIP TILL ANY MATCH WITHIN 10 min;"
            )
            broker.subscribe("few: S/a NEXT {1 min} S/b;")
            found: list[object] = [told(broker.process(part)) for part in batches(4, 12)]
            found.append([(each.id, each.reason) for each in broker.engine.take_suspensions()])
            found.append(broker.engine.registry.gaps.suspended())
            told_of.append(found)
    assert told_of[0] == told_of[1]
    assert told_of[0][-1], "nothing was stopped"  # type: ignore[index]


@pytest.mark.parametrize("values", [1, 8])
def test_each_shard_counts_what_waits_for_itself(values: int, tmp_path: Path) -> None:
    """More than 20 documents of one value are too many in their shard, as on one machine. Those of
    eight values wait in three shards, and are decided as by one machine that may keep more."""
    bounds = Budgets(combinations=2)
    told_of: list[list[object]] = []
    alone = Broker.over(Engine(Store(None), 20_000_000, budgets=bounds))
    roomy = Broker(lateness=LATENESS)
    many = sharded(tmp_path, 3, lateness=20_000_000, budgets=bounds)
    for broker in (alone, roomy, many):
        with broker:
            broker.subscribe("late: S/a FOLLOWED BY {4 min} NOT (S/b OR S/c) PARTITION BY ./k;")
            own: list[object] = []
            for begin in range(0, 60, 10):
                tags = [(n, "b" if n % 9 == 8 else "a") for n in range(begin, begin + 10)]
                part = [
                    Document(str(n), "S", 10.0 * n, f"<{tag}><k>{n % values}</k></{tag}>")
                    for n, tag in tags
                ]
                own.append(told(broker.process(part)))
                own.append([(each.id, each.reason) for each in broker.engine.take_suspensions()])
            own.append(broker.engine.registry.gaps.suspended())
            told_of.append(own)
    assert told_of[0][-1] == 1
    assert told_of[1][-1] == 0
    assert values == 1 or told_of[1][-3], "nothing was decided late"
    assert told_of[2] == told_of[0 if values == 1 else 1]


def test_patterns_come_and_go_and_come_home(tmp_path: Path) -> None:
    """A pattern whose stream somebody begins to publish is matched by the coordinator from then on,
    with the documents of before."""
    alone = Broker(lateness=LATENESS)
    many = sharded(tmp_path / "shared", 3, tmp_path / "state", lateness=20_000_000)
    with alone, many:
        changes: list[Callable[[Broker], object]] = [
            lambda b: b.subscribe(QUERIES),
            lambda b: b.pause("next"),
            lambda b: b.subscribe(
                "two: T/x FOLLOWED BY {1 min} NOT S/a; three: S/a NEXT {1 h} S/b;"
            ),
            lambda b: b.resume("next"),
            lambda b: b.subscribe("maker: S/b->x PUBLISH T;"),
            lambda b: b.unsubscribe("fold"),
        ]
        for change, part in zip(changes, batches(6, 10), strict=False):
            for broker in (alone, many):
                change(broker)
            assert told(many.process(part)) == told(alone.process(part))
        assert isinstance(many.engine, ShardedEngine)
        assert {each.subscription.id for each in many.engine.standings.awake()} == {"two"}


NEW = "new: S/b JOIN {3} NOT S/a"


def test_a_pattern_that_comes_while_shards_run_knows_since_when(tmp_path: Path) -> None:
    """An absence that would look back to before it is no match, as on one machine."""
    with Broker(lateness=0) as alone, sharded(tmp_path, 2, lateness=0) as many:
        for broker in (alone, many):
            broker.subscribe(NEW.replace("new", "old"))
            broker.process([Document("1", "S", 9.0, "<c/>")])
            broker.subscribe(NEW)
            broker.process([Document("2", "S", 12.0, "<b/>")])
        found = told(many.decide())
        assert found == told(alone.decide())
        assert [query for query, *_ in found] == ["old"]


@pytest.mark.parametrize("asked", [Broker.waiting, Broker.decide])
@pytest.mark.parametrize("change", ["subscribe", "pause", "unsubscribe"])
def test_changes_count_at_once_for_what_waits_in_shards(
    change: str, asked: Callable[[Broker], list[object]], tmp_path: Path
) -> None:
    """Also before the next documents tell the shards of them."""
    with Broker(lateness=0) as alone, sharded(tmp_path, 2, lateness=0) as many:
        answers = []
        for broker in (alone, many):
            broker.subscribe("old: S/a FOLLOWED BY {5} NOT S/b; stays: S/a NEXT S/c")
            broker.process([Document("1", "S", 9.0, "<a/>")])
            if change == "subscribe":
                broker.subscribe(NEW)
            elif change == "pause":
                broker.pause("old")
            else:
                broker.unsubscribe("old")
            answers.append([getattr(each, "query", None) for each in asked(broker)])
            broker.process([Document("2", "S", 19.0, "<b/>")])
        assert answers[0] == answers[1]
        assert told(many.decide()) == told(alone.decide())


def test_shards_that_are_killed_lose_no_pattern(tmp_path: Path) -> None:
    alone, processes = Broker(lateness=LATENESS), forking()
    many = sharded(tmp_path, 2, None, lambda: RemoteShards(processes), lateness=20_000_000)
    found: list[Match] = []
    with alone, many:
        for broker in (alone, many):
            broker.subscribe(QUERIES)
        for number, part in enumerate(batches(6, 10)):
            own = many.process(part)
            assert told(own) == told(alone.process(part))
            found += own
            if number in (1, 2, 4):
                processes.running[number % 2].kill()
        assert len({match.id for match in found}) == len(found) > 0
