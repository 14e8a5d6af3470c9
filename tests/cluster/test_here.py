"""Random brokers in several shards equal the oracle, and one machine where there is no oracle."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document, Match
from broker.cluster.sharded import ShardedEngine
from broker.engine import Engine
from broker.model import Budgets, Limit
from broker.shared_match import each_match
from broker.state.store import Store
from tests.cluster.brokers import opening, sharded
from tests.command import run as run_command
from tests.oracle.generate import case, recut
from tests.oracle.generate_documents import Level
from tests.properties.harness import difference, expected, flat, observed
from tests.seeds import seeds
from tests.waiting import PATIENCE

PAIR = "pair: SELECT t FROM S//i[./t->t] FOLLOWED BY {t = u, 1 h} S//i[./t->u];"
EVERY = "every: S//i->x JOIN {1 h} S//i->y;"


def item(number: int, *titles: str, revision: bool = False) -> Document:
    inside = "".join(f"<t>{title}</t>" for title in titles)
    return Document(str(number), "S", 60.0 * number, f"<i>{inside}</i>", revision=revision)


def told(matches: list[Match]) -> list[tuple[str, ...]]:
    return sorted((m.query, m.result, *(d.id for d in m.documents)) for m in matches)


@pytest.mark.parametrize("level", ["core", "full"])
@pytest.mark.parametrize("seed", seeds(5, 100))
def test_random_brokers_equal_the_oracle(level: Level, seed: int, tmp_path: Path) -> None:
    of = case(Random(5000 + seed), level)
    hot_from = (2, 1_000)[seed % 2]
    answer = observed(of, opening=opening(tmp_path, lambda: 1 + seed % 5, hot_from=hot_from))
    assert not (found := difference(of, expected(of), answer)), found


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_restarts_with_another_number_of_shards_change_nothing(seed: int, tmp_path: Path) -> None:
    of = case(Random(6000 + seed), "core")
    coin = Random(seed)
    answer = observed(
        of,
        restart_before=lambda number: number > 0 and coin.random() < 0.5,
        opening=opening(tmp_path, lambda: coin.randint(1, 4)),
    )
    assert not (found := difference(of, expected(of), answer)), found


@pytest.mark.parametrize("seed", seeds(2, 30))
def test_how_batches_are_cut_changes_nothing(seed: int, tmp_path: Path) -> None:
    one = case(Random(7000 + seed), "core")
    other = recut(Random(seed), one)
    whole, cut = (
        flat(observed(each, opening=opening(tmp_path / name, lambda: 3)))
        for name, each in (("one", one), ("other", other))
    )
    assert whole == cut


@pytest.mark.parametrize("state", [False, True])
def test_subscriptions_that_change_while_it_runs(state: bool, tmp_path: Path) -> None:
    """Paused, resumed, removed and added again between batches, as one machine has it."""
    alone = Broker()
    many = sharded(tmp_path / "shared", 3, tmp_path / "state" if state else None)
    r = Random(3)
    with alone, many:
        for broker in (alone, many):
            broker.subscribe(PAIR + EVERY)
        for batch in range(12):
            documents = [item(4 * batch + n, f"t{r.randint(0, 2)}") for n in range(4)]
            found = [told(broker.process(documents)) for broker in (alone, many)]
            assert found[0] == found[1]
            assert batch < 2 or found[0]
            name = r.choice(("pair", "every"))
            what = ("pause", "resume", "again")[batch % 3]
            for broker in (alone, many):
                if what == "again":
                    broker.unsubscribe(name)
                    broker.subscribe(PAIR if name == "pair" else EVERY)
                else:
                    getattr(broker, what)(name)
                    broker.subscribe(f"new{batch}: S//i[./t->a] JOIN {{a = b, 1 h}} S//i[./t->b];")


def test_what_exceeds_a_budget_in_all_shards_together_is_set_aside(tmp_path: Path) -> None:
    """No shard has more than 30 combinations of the query at the last document; all have 39."""
    bounds = Budgets(combinations=30)
    query = "all: SELECT x FROM S//i[./t->t]/t->x JOIN {t = u, 1 h} S//i[./t->u];" + PAIR
    told_of: list[tuple[object, ...]] = []
    alone = Broker.over(Engine(Store(None), budgets=bounds))
    for broker in (alone, sharded(tmp_path, 4, budgets=bounds)):
        with broker:
            broker.subscribe(query)
            found = told(broker.process([item(n, f"v{n}") for n in range(40)]))
            last = told(broker.process([item(41, *(f"v{n}" for n in range(40)))]))
            letters = [(letter.id, letter.reason) for letter in broker.dead_letters()]
            told_of.append((found, last, letters))
    assert told_of[0] == told_of[1]
    assert told_of[0][2], "nothing was set aside"


@pytest.mark.parametrize(
    "query",
    [
        PAIR,
        "made: SELECT t FROM S//i[./t->t] PUBLISH P;"
        "pair: SELECT a FROM P//t->a FOLLOWED BY {a = b, 1 h} P//t->b;",
    ],
)
def test_what_each_shard_has_below_its_part_of_a_budget_counts(query: str, tmp_path: Path) -> None:
    """13 combinations at the last document, of which some shards have less than a quarter each."""
    told_of: list[list[tuple[list[object], list[object]]]] = []
    for count in (0, 4):
        told_of.append([])
        for most in (13, 12):
            bounds = Budgets(combinations=most)
            broker = Broker.over(Engine(Store(None), budgets=bounds))
            if count:
                broker = sharded(tmp_path / str(most), count, budgets=bounds)
            with broker:
                broker.subscribe(query)
                found: list[object] = [*told(broker.process([item(n, f"v{n}") for n in range(13)]))]
                for last in (20, 21):
                    found += told(broker.process([item(last, *(f"v{n}" for n in range(13)))]))
                letters: list[object] = [(each.id, each.reason) for each in broker.dead_letters()]
                told_of[-1].append((found, letters))
    assert told_of[1] == told_of[0]
    (all_found, _), (fewer, set_aside) = told_of[0]
    assert len(fewer) < len(all_found)
    assert set_aside, "nothing was set aside"


@pytest.mark.parametrize("common", [None, Limit.of(30, 3_600_000_000)])
def test_a_limit_holds_for_the_matches_of_all_shards(common: Limit | None, tmp_path: Path) -> None:
    """A subscription is suspended at the document at which one machine suspends it."""
    other = "other: SELECT t FROM S//i[./t->t] FOLLOWED BY {t = u, 1 h} S//i[./t->u];"
    two = "two: S//i[./t->a] JOIN {a = b, 1 h} S//i[./t->b];"
    alone = Broker.over(Engine(Store(None), limit=common))
    told_of: list[list[object]] = []
    for broker in (alone, sharded(tmp_path, 3, limit=common)):
        with broker:
            broker.subscribe(PAIR + two + other)
            own: list[object] = []
            for batch in range(4):
                documents = [item(n, f"t{n % 5}", "all") for n in range(5 * batch, 5 * batch + 5)]
                own.append(told(broker.process(documents)))
                own.append([(each.id, each.reason) for each in broker.engine.take_suspensions()])
                if batch == 0:
                    broker.engine.set_limit("two", Limit.of(50, 3_600_000_000))
            told_of.append(own)
    assert told_of[0] == told_of[1]
    assert any(told_of[0][1::2]), "nothing was suspended"


@pytest.mark.parametrize("shards", [3, 4, 6])
def test_queries_that_two_joins_connect_are_matched_in_a_grid(shards: int, tmp_path: Path) -> None:
    chain = "S//i[./t->a] JOIN {a = b, 1 h} S//i[./t->b][./u->c] JOIN {c = d, 1 h} S//i[./u->d]"
    r = Random(shards)
    alone, many = Broker(), sharded(tmp_path, shards)
    with alone, many:
        for broker in (alone, many):
            broker.subscribe(f"chain: {chain};")
        for batch in range(6):
            documents = []
            for n in range(4):
                inside = [f"<t>{r.randint(0, 3)}</t><u>{r.randint(0, 3)}</u>" for _ in "ab"]
                number = 4 * batch + n
                xml = f"<i>{''.join(inside)}</i>"
                documents.append(Document(str(number), "S", 60.0 * number, xml))
            found = [told(broker.process(documents)) for broker in (alone, many)]
            assert found[0] == found[1]
            assert batch < 2 or found[0]
        assert isinstance(many.engine, ShardedEngine)
        (route,) = many.engine.cluster.home.routes.values()
        ways = ["row", "cell", "column"] if shards > 3 else ["value", "value", "every"]
        assert [part.by for part in route.parts] == ways


CASCADE = (
    "made: S//i[./t->a] FOLLOWED BY {a = b, 1 h} S//i[./t->b] PUBLISH out;"
    "reads: out//t->x JOIN {x = y, 1 h} S//i[./t->y];"
    "again: SELECT x FROM out//t->x JOIN {x = y, 1 h} out//t->y PUBLISH more;"
    "last: more/result->x;"
)


@pytest.mark.parametrize("form", [None, "jsonl"])
def test_results_that_become_documents_go_to_the_shards_in_further_rounds(
    form: str | None, tmp_path: Path
) -> None:
    r = Random(1)
    alone, many = Broker(), sharded(tmp_path / "shared", 3, tmp_path / "state", form=form)
    lines: list[bytes] = []
    many.engine.on_text = lines.extend
    with alone, many:
        for broker in (alone, many):
            broker.subscribe(CASCADE)
        for batch in range(4):
            documents = [item(3 * batch + n, f"t{r.randint(0, 1)}") for n in range(3)]
            wanted = alone.process(documents)
            found = [*each_match(many.engine.apply(many.arrivals(documents)))]
            assert form is None or found, "what becomes documents is written by the coordinator"
            many.engine.hand_over()
            ids = [match.id for match in found] + [line[8:40].decode() for line in lines]
            lines.clear()
            assert sorted(ids) == sorted(match.id for match in wanted)
        assert isinstance(many.engine, ShardedEngine)
        assert len(many.engine.cluster.home.routes) == 4
        waiting = [match.id for match in each_match(many.engine.undelivered(100_000))]
        assert len(waiting) == len({*waiting})


def test_what_event_patterns_wait_for_and_find_stays_with_the_coordinator(tmp_path: Path) -> None:
    queries = (
        CASCADE
        + "waits: more//t->x FOLLOWED BY {1 min} NOT S//o->y PUBLISH late; after: late/result->x;"
        + "apart: S//i[./t->a] JOIN {a = b, 1 h} S//i[./t->b] PUBLISH one; reader: one/result->x;"
    )
    with sharded(tmp_path, 2) as broker:
        broker.subscribe(queries)
        broker.process([item(1, "t")])
        assert isinstance(broker.engine, ShardedEngine)
        catalog, home = broker.engine.catalog, broker.engine.cluster.home
        routed = {
            id
            for n in home.routes
            for id in {s.id for s in catalog.canonical[n].subscribers.values()}
        }
        assert routed == {"reads", "last", "apart", "reader"}


def test_a_value_that_becomes_hot_is_spread_over_the_shards(tmp_path: Path) -> None:
    """Before and after a restart; the documents of before are divided anew."""
    batches = [[item(n, "all", f"t{n % 7}") for n in range(10 * b, 10 * b + 10)] for b in range(6)]
    with Broker() as alone:
        alone.subscribe(PAIR)
        wanted = [told(alone.process(batch)) for batch in batches]
    found = []
    for part in (batches[:3], batches[3:]):
        with sharded(tmp_path / "shared", 4, tmp_path / "state", hot_from=10) as broker:
            broker.subscribe(PAIR)
            found += [told(broker.process(batch)) for batch in part]
            assert isinstance(broker.engine, ShardedEngine)
            assert len(broker.engine.cluster.shared.routing(1)["hot"]) == 1
    assert found == wanted


def test_segments_go_when_their_documents_expire(tmp_path: Path) -> None:
    with sharded(tmp_path, 2, lateness=0, expiry_every=1) as broker:
        broker.subscribe(PAIR)
        for n in range(0, 600, 10):
            broker.process([item(n, "t")])
        assert len([*(tmp_path / "batches").glob("*.rows")]) <= 9


def test_a_directory_that_is_lost_is_made_again(tmp_path: Path) -> None:
    for shared in ("one", "two"):
        with sharded(tmp_path / shared, 2, tmp_path / "state") as broker:
            broker.subscribe(PAIR)
            number = 3 * (shared == "two")
            found = broker.process([item(number + n, "t") for n in range(3)])
            assert len(found) == (3 if shared == "one" else 3 + 4 + 5)


def test_undelivered_matches_are_those_of_the_shards_too(tmp_path: Path) -> None:
    with sharded(tmp_path / "shared", 2, tmp_path / "state", form="jsonl") as broker:
        broker.subscribe(
            PAIR + "same: SELECT t FROM S//i[./t->t] FOLLOWED BY {t = u, 1 h} S//i[./t->u]"
        )
        engine = broker.engine
        assert engine.apply(broker.arrivals([item(n, "t") for n in range(3)])) == []
        waiting = each_match(engine.undelivered())
        lines: list[bytes] = []
        engine.on_text = lines.extend
        assert engine.hand_over() == 6
        assert len(lines) == len(waiting) == 6
        assert sorted(m.id for m in waiting) == sorted(line[8:40].decode() for line in lines)
        assert not engine.undelivered()


def test_explain_says_where_documents_go(tmp_path: Path) -> None:
    file = tmp_path / "queries.xscl"
    file.write_text(
        PAIR
        + EVERY
        + "made: S//i->x PUBLISH out; reads: out/result->x; still: S//i->x FOLLOWED BY {1 h} NOT S//o->y;"
        + "tied: S//i[./t->x] FOLLOWED BY {x = y, 1 h} NOT S//o[./t->y];"
        + "chain: S//i[./t->a] JOIN {a = b, 1 h} S//i[./t->b][./u->c] JOIN {c = d, 1 h} S//i[./u->d];",
        encoding="utf-8",
    )
    told = run_command(("explain", str(file), "--stage", "shards"), timeout=PATIENCE).stdout
    lines = [line for line in told.splitlines() if line and not line.startswith("--")]
    assert [line.partition(":")[0] for line in lines] == [
        *(f"a document of block {n} goes to the shards of its values of S//i/t" for n in (1, 2)),
        "a document of block 1 goes to one shard, by its number",
        "a document of block 2 goes to every shard",
        "a document of block 1 goes to one shard, by its number",
        "a document of block 1 goes to one shard, by its number",
        *(
            f"a document of block {n} goes to one shard, the home of this event pattern"
            for n in (1, 2)
        ),
        "all to one",
        "a document of block 1 goes to the shard of its value of S//i/t",
        "a document of block 2 goes to the shard of its value of S//o/t",
        "until a document has several of these values",
        "a document of block 1 goes to a row of shards for each of its values of S//i/t",
        "a document of block 2 goes to the shards where its values of S//i/t and of S//i/u meet",
        "a document of block 3 goes to a column of shards for each of its values of S//i/u",
    ]
