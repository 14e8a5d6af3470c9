"""Stage 1 of the next batch in another process: what comes of it is what comes of it here, whatever
happens to that process and to the patterns meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from broker import Broker
from broker.documents.ahead import WORTH, Ahead
from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals
from feeds.rows import DocumentRow
from tests.waiting import PATIENCE, until

QUERIES = """
    joined: S//a[./k->k][./n > 3][contains(./k, 'x')] FOLLOWED BY {k = l, 1 h} S//a//b[./k->l];
    read: S//a[./k->k]/@n->n FOLLOWED BY {n < m AND k = l, 1 h} S//a[./k->l]/@n->m;
"""
MORE = "more: S//a/b->b JOIN {b = c, 1 h} S//a/b->c;"


def rows(first: int, count: int = WORTH) -> list[DocumentRow]:
    """Documents of several kinds, some of which are none."""
    found = []
    for n in range(first, first + count):
        kinds = (
            f"<a n='{n % 7}'><k>x{n % 5}</k><n>{n % 9}</n></a>",
            f"<a><b><k>x{n % 5}</k><!-- {n} --></b>tail<b>\u00e9&#x1F600;{n % 3}</b></a>",
            "<a><b></a>",
            f"<other>{n}</other>",
        )
        xml = kinds[n % len(kinds)].encode()
        error = "refused before" if n % 50 == 0 else None
        streams = ("S", "T") if n % 2 else ("S",)
        found.append(DocumentRow("here", f"d{n}", streams, n, True, n + 1, False, xml, error))
    return found


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.subscribe(QUERIES)
        yield broker


@pytest.fixture
def ahead(broker: Broker) -> Iterator[Ahead]:
    ahead = Ahead(broker.engine, True, lambda: False)
    assert ahead.ready(PATIENCE)
    yield ahead
    ahead.close()


def check(broker: Broker, given: Sequence[DocumentRow], found: Arrivals) -> None:
    expected = arrivals(broker.engine.matcher, given)
    assert found.documents == expected.documents
    assert found.rows.equals(expected.rows)
    assert [*found.texts] == [*expected.texts]
    assert [*found.outlines] == [*expected.outlines]
    assert expected.rows.num_rows


def test_it_says_what_stage_1_says_here(broker: Broker, ahead: Ahead) -> None:
    batches = [rows(n, WORTH + n) for n in range(4)]
    for n, batch in enumerate(batches):
        if n + 1 < len(batches):
            assert ahead.begin(batches[n + 1])
        check(broker, batch, ahead.arrivals(batch))
    assert ahead.taken == 3


def test_the_patterns_of_now_count(broker: Broker, ahead: Ahead) -> None:
    first, second, third = rows(0), rows(1_000), rows(2_000)
    assert ahead.begin(first)
    broker.subscribe(MORE)
    check(broker, first, ahead.arrivals(first))
    assert ahead.taken == 0
    assert ahead.begin(second)
    check(broker, second, ahead.arrivals(second))
    broker.unsubscribe("joined")
    assert ahead.begin(third)
    check(broker, third, ahead.arrivals(third))
    assert ahead.taken == 2


def test_very_many_patterns_are_sent_before_documents(broker: Broker, ahead: Ahead) -> None:
    first, second = rows(0), rows(1_000)
    broker.subscribe(
        ";\n".join(f"q{n}: SELECT x FROM S//a[./k = 'x{n}'][./n->x]" for n in range(2_000))
    )
    ahead.begin(first)
    check(broker, first, ahead.arrivals(first))
    assert ahead.ready(PATIENCE)
    assert ahead.begin(second)
    check(broker, second, ahead.arrivals(second))
    assert ahead.taken == 1


def test_what_was_begun_and_not_wanted_is_forgotten(broker: Broker, ahead: Ahead) -> None:
    first, second = rows(0), rows(1_000)
    assert ahead.begin(first)
    assert ahead.begin(second)
    check(broker, first[:100], ahead.arrivals(first[:100]))
    check(broker, second, ahead.arrivals(second))


def test_it_is_not_asked_for_few_documents(broker: Broker, ahead: Ahead) -> None:
    assert not ahead.begin(rows(0, WORTH - 1))


def test_a_process_that_dies_costs_nothing(broker: Broker, ahead: Ahead) -> None:
    batch = rows(0)
    for _ in range(2):
        assert ahead.ready(PATIENCE)
        assert ahead.begin(batch)
        kill(ahead)
        check(broker, batch, ahead.arrivals(batch))
    assert ahead.taken == 0
    assert ahead.ready(PATIENCE)
    assert ahead.begin(batch)
    check(broker, batch, ahead.arrivals(batch))
    assert ahead.taken == 1


def test_processes_that_die_again_and_again_are_not_started_any_more(
    broker: Broker, ahead: Ahead
) -> None:
    batch = rows(0)
    for _ in range(3):
        assert ahead.ready(PATIENCE)
        kill(ahead)
        ahead.begin(batch)
        check(broker, batch, ahead.arrivals(batch))
    assert not ahead.enabled
    assert not ahead.begin(batch)


def kill(ahead: Ahead) -> None:
    process = ahead.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)  # so that it answers nothing before
    process.kill()
    process.wait(PATIENCE)


def test_one_that_needs_too_much_memory_ends_and_all_is_done_here() -> None:
    """And it is tried again with the next batches."""
    with Broker() as broker:
        broker.subscribe("q: SELECT x FROM S//r[.//n->x];")
        ahead = Ahead(broker.engine, True, lambda: False, memory=300 << 20)
        try:
            assert ahead.ready(PATIENCE)
            small = [_row(n, "<n/>") for n in range(WORTH)]
            assert ahead.begin(small)
            assert len(ahead.arrivals(small).documents) == WORTH
            assert ahead.taken == 1
            large = [_row(n, "<n>1</n>" * 5_000) for n in range(WORTH)]
            assert ahead.begin(large)
            assert ahead.arrivals(large).rows.num_rows >= 5_000 * WORTH
            assert ahead.taken == 1
            assert ahead.process is None
            assert ahead.enabled
        finally:
            ahead.close()


def _row(number: int, inside: str) -> DocumentRow:
    xml = f"<r>{inside}</r>".encode()
    return DocumentRow("post:S", str(number), ("S",), number, True, None, False, xml)


OWNER = """
import sys, time
from broker import Broker
from broker.documents.ahead import Ahead

with Broker() as broker:
    ahead = Ahead(broker.engine, True, lambda: False)
    assert ahead.ready(600)
    print(ahead.process.pid, flush=True)
    time.sleep(6_000)
"""


def test_it_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()
    until(lambda: not runs(pid))


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"
