"""Searches that take too long: they are stopped, the pair of query and document is found and set
aside, and nobody waits for them; a process that dies of them gets past them at its next starts."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.join.work import Care, Overdue
from broker.service.core.answers import Posted
from broker.service.core.marks import Marks
from broker.service.service import Service
from broker.state.relations import MatchRelations
from feeds.rows import DocumentRow
from tests.command import Command
from tests.service.data import settings
from tests.waiting import PATIENCE, until
from xscl.interruption import check

HONEST = "honest: SELECT k FROM S//r[./k->k] FOLLOWED BY {k = l, 1 h} S//r[./k->l];\n"
RESIDUAL = """
slow: SELECT k FROM S//r[./k->k]/b->b[.//n->x][.//n->y][.//n->z]
      JOIN {x + y + z = 0.5 AND k = l, 1 h} S//r[./k->l];
"""
"""Very many combinations of nodes, of which not one holds."""

PRECEDING = "slow: SELECT b FROM S//b->b[.//n[count(preceding::n) > 100000]];"
"""For each node all that are before it are counted."""


def document(number: int, inside: str = "") -> Posted:
    xml = f"<r><k>{number // 2}</k>{inside and f'<b>{inside}</b>'}</r>"
    return Posted(xml.encode(), id=str(number), timestamp=60_000_000 * number)


@contextmanager
def serving(state: Path, **sections: Any) -> Iterator[Service]:
    sections.setdefault("limits", {"time": "300 ms"})
    service = Service(settings(state, **sections))
    service.start()
    try:
        yield service
    finally:
        assert service.stop(timeout=PATIENCE)


def found(service: Service) -> Counter[str]:
    return Counter(each.match.query for each in service.mailbox.matches(None, 0, 1_000))


def reasons(service: Service) -> list[tuple[str, str]]:
    return [(letter.id, letter.reason) for letter in service.letters.page()]


def matched(service: Service, last: int) -> None:
    until(lambda: service.core.position >= last)
    with service.core.lock:
        service.core.hand_over(())


@pytest.mark.parametrize(
    ("query", "inside"),
    [
        (RESIDUAL, "<n>1</n>" * 900),
        (PRECEDING, "<n/>" * 30_000),
    ],
    ids=["residual", "stage1"],
)
def test_a_search_that_takes_too_long_is_stopped_and_its_pair_set_aside(
    tmp_path: Path, query: str, inside: str
) -> None:
    others = "".join(
        f"other{n}: SELECT k FROM S//r[./k->k] FOLLOWED BY {{k = l AND k != {n}, 1 h}}"
        " S//r[./k->l];\n"
        for n in range(6)
    )
    with serving(tmp_path / "state") as service:
        service.subscriptions.subscribe(HONEST + query + others)
        documents = [document(n, inside if n in (2, 3) else "") for n in range(8)]
        matched(service, service.intake.publish("S", documents).last)
        every = found(service)
        assert every["honest"] == 4
        assert [every[f"other{n}"] for n in range(6)] == [3] * 4 + [4] * 2
        assert {id for id, _ in reasons(service)} <= {"2", "3"}
        why = "the query slow had no match here: its search took longer than 300 ms"
        assert ("3", why) in reasons(service)
        assert service.watch.figures.failure is None


def test_very_many_attributes_take_time_in_proportion(tmp_path: Path) -> None:
    queries = """
        joined: S//r[./@z->k] FOLLOWED BY {k = l, 1 h} S//r[./k->l];
        filtered: S//r[@z = 'tide'];
        second: S//r[./@*[2] = '1'];
        counted: S//r[count(./@*) > 9]
    """
    many = " ".join(f'a{n}="{n}"' for n in range(200_000))
    with serving(tmp_path / "state", limits={"time": "20 s"}) as service:
        service.subscriptions.subscribe(queries)
        documents = [
            Posted(f'<r {many} z="tide"/>'.encode(), id="0", timestamp=0),
            Posted(b"<r><k>tide</k></r>", id="1", timestamp=1),
        ]
        matched(service, service.intake.publish("S", documents).last)
        assert found(service) == dict.fromkeys(("joined", "filtered", "second", "counted"), 1)
        assert reasons(service) == []


@pytest.mark.parametrize("bad", ["q0", "q3", "q6", None])
def test_what_all_queries_need_together_is_too_much_for_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str | None
) -> None:
    """Memory may run out where no query is worked for by itself: trials with some of them find the
    one with which it does; without it, or with no query at all, the document is the reason."""
    with serving(tmp_path / "state", limits={"time": "1 hour"}) as service:
        texts = [f"q{n}: SELECT k FROM S//r[./k->k][./b/n{n}];\n" for n in range(7)]
        service.subscriptions.subscribe(HONEST + "".join(texts))
        work = service.engine.work
        insert = MatchRelations.insert

        def inserted(self: MatchRelations, documents: Any, rows: Any, *more: Any) -> Any:
            done = insert(self, documents, rows, *more)
            name = bad and service.engine.catalog.subscriptions[bad].canonical.name
            care = work.care
            if any(b"<b>" in each.xml for each in documents) and (
                bad is None or care is None or name not in care.without()
            ):
                work.stop(Overdue("its search took the service beyond 1 GB of memory"))
                check()
            return done

        monkeypatch.setattr(MatchRelations, "insert", inserted)
        inside = "".join(f"<n{n}/>" for n in range(7))
        documents = [document(n, inside if n == 3 else "") for n in range(6)]
        matched(service, service.intake.publish("S", documents).last)
        every = found(service)
        [(id, reason)] = reasons(service)
        assert id == "3"
        assert "beyond 1 GB of memory" in reason
        if bad is None:
            assert "without any query" in reason
            assert every == {"honest": 2}
        else:
            assert f"the query {bad} had no match here" in reason
            assert every == {"honest": 3} | {f"q{n}": 1 for n in range(7) if f"q{n}" != bad}


def test_nobody_waits_for_a_search(tmp_path: Path) -> None:
    with serving(tmp_path / "state", limits={"time": "1 hour"}) as service:
        service.subscriptions.subscribe(HONEST + RESIDUAL + "other: SELECT k FROM S//r->k;")
        documents = [document(n, "<n>1</n>" * 900 if n in (2, 3) else "") for n in range(6)]
        last = service.intake.publish("S", documents).last
        until(lambda: service.engine.work.thread is not None and service.engine.work.count >= 2)
        assert service.subscriptions.get("slow").status == "active"
        assert reasons(service) == []
        assert service.figures().spool.backlog == 6
        service.subscriptions.drop("other")
        assert service.core.position < last, "it was not waited for"
        service.subscriptions.drop("slow")
        matched(service, last)
        assert found(service) == {"honest": 3}


def test_the_service_stops_within_seconds_and_goes_on_later(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state, limits={"time": "1 hour"}) as service:
        service.subscriptions.subscribe(HONEST + RESIDUAL)
        documents = [document(n, "<n>1</n>" * 900 if n in (2, 3) else "") for n in range(6)]
        last = service.intake.publish("S", documents).last
        until(lambda: service.engine.work.thread is not None and service.engine.work.count >= 2)
        assert service.halt(PATIENCE), "the search was stopped"
    assert Marks(state / "working.json", 0).last == 0, "this was no death"
    with serving(state) as service:
        matched(service, last)
        assert found(service) == {"honest": 3}


# -- a process that dies -----------------------------------------------------------------------


def test_a_crash_loop_ends_by_itself(tmp_path: Path) -> None:
    state = tmp_path / "state"
    queries = "".join(
        f"slow{n}: SELECT k FROM S//r[./k->k] FOLLOWED BY {{k = l AND k + l != {2 * n - 40}, 1 h}}"
        " S//r[./k->l];\n"
        for n in range(40)
    )
    with serving(state) as service:
        service.subscriptions.subscribe(HONEST + queries)
        service.halt(PATIENCE)
        service.core.spool.publish(
            [
                DocumentRow("post:S", str(n), ("S",), 60_000_000 * n, True, None, False, d.xml)
                for n, d in enumerate([document(n) for n in range(8)])
            ]
        )
    deaths = 0
    while code := Command((state,), main="tests.service.dying:main").wait(PATIENCE):
        assert code == -signal.SIGKILL
        deaths += 1
        assert deaths < 10
    # At the batch, at the document, at all queries, at a part of them, and twice at the one.
    assert 4 <= deaths <= 6
    with serving(state) as service:
        every = found(service)
        assert every == {"honest": 4, "slow7": 3} | {
            f"slow{n}": 4 - (n - 20 in range(4)) for n in range(40) if n != 7
        }
        assert reasons(service) == [
            (
                "3",
                "the query slow7 had no match here: the service died 2 times while it searched for"
                " it",
            )
        ]
        assert service.subscriptions.get("slow7").status == "active"


def test_half_a_mark_is_none(tmp_path: Path) -> None:
    path = tmp_path / "working.json"
    for text in ("", "{", '{"first": 1}', '["x"]', '{"last": "many", "first": 3}\n', "\0" * 99):
        path.write_text(text)
        marks = Marks(path, 0)
        assert (marks.last, marks.care) == (0, None)
        marks.close()


def test_one_death_where_no_query_is_worked_for_says_nothing() -> None:
    """A process may be killed at any moment. After two deaths trials begin."""
    care = Care()
    for death in (1, 2):
        care = Care.of(json.loads(json.dumps(care.data())))
        care.died(None)
        care.know([f"q{n}" for n in range(4)])
        assert bool(care.without()) == (death == 2)
    assert care.aside == {}
    first = care.without()
    care.died(None)
    care.know([f"q{n}" for n in range(4)])
    assert care.without() == first


def test_care_divides_queries_until_one_is_left() -> None:
    names = [f"q{n:04}" for n in range(1_000)]

    def parts(care: Care) -> list[list[int]]:
        return [part for _, part in care.parts(range(1_000), names.__getitem__)]

    care = Care()
    assert parts(care) == [[*range(1_000)]]
    tries = 0
    while "q0700" not in care.aside:
        (part,) = [part for part in parts(care) if 700 in part]
        why = Overdue("it took too long")
        why.group = (names[part[0]], names[part[-1]])
        assert care.stopped(why)
        tries += 1
        assert sorted(n for part in parts(care) for n in part) == [
            n for n in range(1_000) if names[n] not in care.aside
        ]
        care = Care.of(json.loads(json.dumps(care.data())))
    assert tries == 3
    assert care.aside == {"q0700": "it took too long"}
    assert not care.stopped(Overdue("with all of them")), "there is nothing to divide"
