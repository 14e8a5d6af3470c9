"""Shards know a query once, however many subscribe to it: each subscriber has its own matches."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from broker import Broker
from broker.cluster.sharded import ShardedEngine
from broker.cluster.shards import HereShards
from broker.model import Budgets
from broker.shared_match import each_match
from broker.text.formats import FORMATS
from tests.cluster.brokers import sharded
from tests.cluster.test_here import item, told

JOIN = "S//i[./t->t] FOLLOWED BY {{t = u, {window}}} S//i[./t->u]"
PLAIN = f"SELECT t FROM {JOIN}"
MADE = f"SELECT <seen>{{{{t}}}} by {{kind}}</seen> FROM {JOIN}"


def subscription(number: int) -> str:
    """One of few queries, with a name of its own."""
    window = ("1 h", "4 min")[number % 2]
    text = (PLAIN, MADE)[number % 3 == 0]
    return f"s{number}: {text.format(window=window, kind=repr(f'k{number % 4}'))};"


def held(broker: Broker) -> list[int]:
    """How many queries each shard has."""
    assert isinstance(broker.engine, ShardedEngine)
    shards = broker.engine.cluster.shards
    assert isinstance(shards, HereShards)
    return [len(each.catalog.subscriptions) for each in shards.shards()]


@pytest.mark.parametrize("form", [None, "jsonl", "text"])
def test_subscribers_come_and_go(form: str | None, tmp_path: Path) -> None:
    """Each has the matches that one machine gives it, as text too; the state is opened again with
    another number of shards."""
    r = Random(7)
    here: set[int] = set()
    paused: set[int] = set()
    with Broker(tmp_path / "alone") as alone:
        for part in range(2):
            shared, state = tmp_path / "shared", tmp_path / "state"
            with sharded(shared, 2 + part % 2, state, form=form) as many:
                lines: list[bytes] = []
                many.engine.on_text = lines.extend
                for batch in range(4):
                    fresh = [n for n in r.sample(range(40), 12) if n not in here]
                    gone = r.sample(sorted(here), len(here) // 3)
                    turned = r.sample(sorted(here - {*gone}), (len(here) - len(gone)) // 4)
                    for broker in (alone, many):
                        for n in gone:
                            broker.unsubscribe(f"s{n}")
                        broker.subscribe("".join(map(subscription, fresh)))
                        for n in turned:
                            (broker.resume if n in paused else broker.pause)(f"s{n}")
                    here = here - {*gone} | {*fresh}
                    paused = (paused ^ {*turned}) - {*gone}
                    number = 12 * part + 3 * batch
                    documents = [item(number + n, f"t{r.randint(0, 1)}") for n in range(3)]
                    wanted = alone.process(documents)
                    found = [*each_match(many.engine.apply(many.arrivals(documents)))]
                    many.engine.hand_over()
                    assert wanted or number < 3
                    if form is None:
                        assert told(found) == told(wanted)
                        assert {match.id for match in found} == {match.id for match in wanted}
                    else:
                        own = [f"{FORMATS[form](match)}\n".encode() for match in wanted]
                        assert sorted(lines) == sorted(own)
                        lines.clear()
                    many.engine.acknowledge(many.engine.undelivered(1_000_000))
                # Two windows for the plain ones, and for each of four texts that are made.
                assert max(held(many)) <= 2 + 8


def test_the_results_of_one_select_that_are_too_long_are_left_out_for_its_subscribers(
    tmp_path: Path,
) -> None:
    bounds = Budgets(text=400)
    queries = f"plain: {PLAIN}; made: {MADE}; same: {MADE};".format(window="1 h", kind="{t}" * 8)
    told_of: list[tuple[object, object]] = []
    for count in (0, 3):
        with (
            sharded(tmp_path, count, budgets=bounds) if count else Broker(budgets=bounds) as broker
        ):
            broker.subscribe(queries)
            found = [
                told(broker.process([item(2 * n, "t" * 60), item(2 * n + 1, f"t{n}")]))
                for n in range(4)
            ]
            told_of.append((found, [(each.id, each.reason) for each in broker.dead_letters()]))
    assert told_of[0] == told_of[1]
    assert told_of[0][1], "nothing was left out"
