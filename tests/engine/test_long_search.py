"""Queries of three blocks that are decided in memory: who decides them, when SQL takes over, and what
is counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

import pytest

from broker import Broker, Document
from broker.explain import sql_stage
from broker.model import Budgets

STORY = "q: S/i->x[./t->t] FOLLOWED BY {t = u, 9 s} S/i->y[./t->u] FOLLOWED BY {u = v, 9 s} S/i->z[./t->v]"


def item(name: str, at: float, *titles: str) -> Document:
    texts = "".join(f"<t>{title}</t>" for title in titles)
    return Document(name, "S", at, f"<i n='{name}'>{texts}</i>")


@contextmanager
def story(budgets: Budgets | None = None, text: str = STORY) -> Iterator[Broker]:
    with Broker(lateness=100, budgets=budgets or Budgets()) as broker:
        broker.subscribe(text)
        yield broker


def found(broker: Broker, *documents: Document) -> list[str]:
    matches = broker.process(list(documents))
    return sorted("".join(each.id for each in match.documents) for match in matches)


def without_sql(broker: Broker) -> AbstractContextManager[object]:
    queried = broker.engine.joiner.relations.queried
    return patch.object(queried, "query", side_effect=AssertionError)


def test_a_story_is_found_without_sql_in_whatever_order_its_items_come() -> None:
    with story() as broker, without_sql(broker):
        assert found(broker, item("a", 1, "s"), item("c", 3, "s")) == []
        assert found(broker, item("b", 2, "s")) == ["abc"]
        assert found(broker, item("d", 4, "s"), item("e", 5, "other")) == ["abd", "acd", "bcd"]
        assert found(broker, item("f", 13.5, "s"), item("g", 50, "s")) == []


def test_of_several_values_one_has_to_be_that_of_all() -> None:
    with story() as broker, without_sql(broker):
        assert found(broker, item("a", 1, "s"), item("b", 2, "s", "r"), item("c", 3, "r")) == []
        assert found(broker, item("d", 4, "q", "s")) == ["abd"]


def test_a_leaf_of_two_blocks_may_join_two_others() -> None:
    text = "q: S/i->x[./t->t] FOLLOWED BY {t = u AND t = v, 9 s} S/j->y[./t->u][./w->v]"
    with story(text=text) as broker, without_sql(broker):
        later = [
            Document(f"j{n}", "S", 2.0, f"<j><t>s</t><w>{value}</w></j>")
            for n, value in enumerate("sr")
        ]
        assert found(broker, item("a", 1, "s", "r"), *later) == ["aj0"]


def test_irregular_documents_are_left_to_sql() -> None:
    text = STORY.replace("S/i->y[./t->u]", "S//p->y[./t->u][./k->k]")
    with story(text=text) as broker:
        posts = "<p><t>s</t><k>1</k></p><p><t>r</t><k>2</k></p>"
        feed = Document("b", "S", 2.0, f"<f>{posts}</f>")
        assert found(broker, item("a", 1, "s"), feed, item("c", 3, "s"), item("d", 4, "r")) == [
            "abc"
        ]


def test_sql_takes_over_where_too_much_is_looked_at_and_for_a_while() -> None:
    with story() as broker:
        long = broker.engine.joiner.long
        long.most = (3, 0)
        assert found(broker, *[item(name, 1 + n, "s") for n, name in enumerate("abcd")]) == [
            *("abc", "abd", "acd", "bcd")
        ]
        tried = []
        for n in range(4):
            found(broker, *[item(f"{n}{k}", 50 + n, f"other {n} {k}") for k in range(4)])
            tried.append(len(long.own))
        found(broker, item("e", 60, "last"))
        tried.append(len(long.own))
        assert tried == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("most", [(-1, 0), (2, 0), (5_000, 20)])
def test_combinations_are_counted_alike_whoever_decides(most: tuple[int, int]) -> None:
    """Of each of three items two values agree: with what is not selected eight combinations."""
    text = "q: SELECT 'found' FROM " + STORY.removeprefix("q: ")
    for combinations, matches in ((2, 1), (1, 0)):
        with story(Budgets(combinations=combinations), text) as broker:
            broker.engine.joiner.long.most = most
            documents = [item(name, 1 + n, "s", "r") for n, name in enumerate("abc")]
            assert len(found(broker, *documents)) == matches


def test_explain_says_who_decides() -> None:
    with story() as broker:
        subscription = broker.engine.catalog.subscriptions["q"]
        text = sql_stage(subscription.compiled, broker.engine.catalog)
    assert text.startswith("-- posting lists decide, document by document")
