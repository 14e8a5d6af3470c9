"""Matches that several subscriptions share: each has its own, as if it had been stored alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

from broker.delivery import Mailbox, MailboxError
from broker.delivery.documents import REMEMBERED, Reader, documents_of, unpacked
from broker.delivery.letters import EVENTS_KEPT
from broker.model import Match, compact_json
from broker.rendering.content import Content
from broker.rendering.rendering import Rendering, places
from broker.shared_match import SharedMatch, Whole, each_match
from tests.delivery.support import DAY, HOUR, START, match

QUERIES = [f"q{n}" for n in range(6)]


def shared(number: int, queries: list[str]) -> SharedMatch:
    """A match of some queries, whose results differ in the query that they name."""
    of_first = match(number, queries[0])
    return SharedMatch(
        b"".join(bytes.fromhex(match(number, query).id) for query in queries),
        queries,
        None,
        of_first.start_us,
        of_first.end_us,
        of_first.nodes,
        (("title", "title2"),),
        Whole(of_first.documents, of_first.values, f"<item>{number}</item>", True),
    )


def referring(number: int, queries: list[str]) -> SharedMatch:
    """The same of documents that it refers to, one of which other matches refer to."""
    of_first = match(number, queries[0])
    each = (number // 3, number)
    contents = [
        Content(f"<item><title>Tide {n}</title><part>{n % 5}</part></item>".encode(), {})
        for n in each
    ]
    found = places(
        (1,),
        (("title", 0, (1,)), ("title2", 1, (1,))),
        ((0, 1, True), (1, 0, True)),
        (("title", "title2"),),
    )
    said = [compact_json([f"https://courier.example/{n}", "S", START + n]) for n in each]
    return SharedMatch(
        b"".join(bytes.fromhex(match(number, query).id) for query in queries),
        queries,
        None,
        of_first.start_us,
        of_first.end_us,
        found.nodes,
        found.joined,
        Rendering((2 * number, 2 * number + 1), contents, said, found, len(queries) > 1),
    )


def documents(mailbox: Mailbox) -> set[int]:
    """The numbers of the stored documents, whose packs are those that matches refer to."""
    packs: dict[int, range] = {}
    for first, head in mailbox.db.rows("SELECT number, head FROM document"):
        packs[first] = range(first, first + documents_of(head))
    stored = {number: first for first, numbers in packs.items() for number in numbers}
    assert len(stored) == sum(map(len, packs.values()))
    docs = mailbox.db.rows("SELECT docs FROM match WHERE docs IS NOT NULL")
    referred = Counter(
        [pack for (packed,) in docs for pack in {stored[number] for number in unpacked(packed)}]
    )
    assert referred == dict(mailbox.db.rows("SELECT document, matches FROM referred"))
    assert packs.keys() == referred.keys()
    return stored.keys() & {number for (packed,) in docs for number in unpacked(packed)}


def rows(mailbox: Mailbox) -> int:
    ((count,),) = mailbox.db.rows("SELECT count(*) FROM match")
    return int(count)


def test_it_is_stored_once_and_read_by_each(mailbox: Mailbox) -> None:
    found = [shared(0, QUERIES), shared(1, ["q4", "q1"])]
    assert mailbox.take(found, START) == 8
    assert rows(mailbox) == 2
    every = mailbox.matches(None, 0, 100)
    assert [d.n for d in every] == [*range(1, 9)]
    assert [d.match for d in every] == each_match(found)
    assert every[4].match.id == match(0, "q4").id
    assert every[4].match.result.startswith('<result query="q4" start="')
    assert [d.n for d in mailbox.matches("q4", 0, 10)] == [5, 7]
    assert [d.n for d in mailbox.matches(["q1", "q4"], 2, 10)] == [5, 7, 8]
    assert [d.n for d in mailbox.matches(["q1", "q4"], 2, 2)] == [5, 7]
    assert [d.n for d in mailbox.latest("q1", 1)] == [8]
    assert [d.n for d in mailbox.matches(None, 3, 2)] == [4, 5]
    assert [d.match.query for d in mailbox.at([8, 3, 99])] == ["q1", "q2"]
    by_id = mailbox.find(match(1, "q1").id)
    assert by_id is not None
    assert (by_id.n, by_id.match.query) == (8, "q1")
    assert mailbox.holds("q3")
    assert mailbox.figures().matches == mailbox.figures().taken == 8


def test_the_same_subscriptions_are_written_once(mailbox: Mailbox) -> None:
    mailbox.take([shared(0, QUERIES)])
    for n in range(1, 50):
        mailbox.take([shared(n, QUERIES)])
    assert mailbox.db.rows("SELECT count(*) FROM member") == [(6,)]
    assert len(mailbox.matches("q2", 0, 100)) == 50


@pytest.mark.parametrize("again", [[0, 1, 2, 3, 4, 5], [5, 3, 1]])
def test_those_who_have_it_do_not_get_it_again(mailbox: Mailbox, again: list[int]) -> None:
    """Also if it comes with others, after the engine was restored from an older backup."""
    mailbox.take([shared(0, ["q1", "q3"])])
    queries = [f"q{n}" for n in again]
    new = [query for query in queries if query not in ("q1", "q3")]
    assert mailbox.take([shared(0, queries), shared(0, queries)]) == len(new)
    every = mailbox.matches(None, 0, 100)
    assert [d.match.query for d in every] == ["q1", "q3", *new]
    assert [d.match.id for d in every] == [match(0, d.match.query).id for d in every]
    assert mailbox.figures().repeated == 2 * len(queries) - len(new)


def test_a_throttle_is_that_of_one(mailbox: Mailbox) -> None:
    mailbox.set_throttle("q2", None, HOUR)
    mailbox.take([shared(0, QUERIES), shared(1, QUERIES)])
    assert [len(mailbox.matches(query, 0, 10)) for query in QUERIES] == [2, 2, 1, 2, 2, 2]
    mailbox.take([shared(7_200, QUERIES)])
    assert [d.left_out for d in mailbox.matches("q2", 0, 10)] == [0, 1]
    assert not any(d.left_out for d in mailbox.matches("q3", 0, 10))
    assert [d.n for d in mailbox.matches(None, 0, 100)] == [*range(1, 18)]


def test_a_dropped_subscription_takes_its_own_away(mailbox: Mailbox) -> None:
    mailbox.put_channel("hook", "webhook", settings={"url": "http://tides.example/"}, after=0)
    mailbox.take([shared(n, QUERIES) for n in range(3)], START)
    mailbox.resend_match(match(1, "q2").id, "hook")
    mailbox.resend_match(match(1, "q3").id, "hook")
    mailbox.drop("q2", "drop")
    assert mailbox.matches("q2", 0, 10) == []
    assert not mailbox.holds("q2")
    assert [d.n for d in mailbox.matches("q3", 0, 10)] == [4, 10, 16]
    assert len(mailbox.matches(None, 0, 100)) == 15
    assert mailbox.figures().retries == 1
    assert mailbox.take([shared(0, QUERIES)]) == 1, "for its successor it is new"
    for query in QUERIES:
        mailbox.drop(query, "drop")
    assert rows(mailbox) == 0


def test_retention_leaves_it_to_those_who_wait(mailbox: Mailbox) -> None:
    mailbox.put_channel("q4", "pull", subscription="q4")
    mailbox.put_channel("q5", "pull", subscription="q5")
    mailbox.take([shared(n, QUERIES) for n in range(3)], START)
    mailbox.ack("q5", 6)
    assert mailbox.retain(DAY, now=START + 2 * DAY) == 13
    assert [d.n for d in mailbox.matches(None, 0, 100)] == [5, 11, 12, 17, 18]
    assert [d.match.id for d in mailbox.pull("q4", 9)] == [match(n, "q4").id for n in range(3)]
    mailbox.ack("q5", 18)
    mailbox.ack("q4", 11)
    assert mailbox.retain(DAY, now=START + 2 * DAY) == 4
    assert [d.n for d in mailbox.matches(None, 0, 100)] == [17]
    mailbox.ack("q4", 17)
    assert mailbox.retain(DAY, now=START + 2 * DAY) == 1
    assert mailbox.db.rows("SELECT count(*) FROM member") == [(0,)]
    assert mailbox.take([shared(9, QUERIES)]) == 6, "the audience is made again"
    assert [d.n for d in mailbox.matches("q5", 0, 9)] == [24]


def test_documents_are_stored_once_and_go_with_their_matches(mailbox: Mailbox) -> None:
    found = [referring(n, QUERIES) for n in (3, 4, 5, 6)]
    read = each_match(found)
    mailbox.take(found[:3], START)
    assert len(documents(mailbox)) == 4, "1, and 3, 4, 5"
    mailbox.take(found[3:], START + DAY)
    assert len(documents(mailbox)) == 6, "with 2 and 6"
    assert [d.match for d in mailbox.matches(None, 0, 100)] == read
    assert read[0].result.endswith(
        "><title>Tide 1</title><item><title>Tide 3</title><part>3</part></item></result>"
    )
    mailbox.retain(DAY // 2, now=START + DAY)
    assert len(documents(mailbox)) == 2
    mailbox.take([referring(7, QUERIES)], START + DAY)
    assert len(documents(mailbox)) == 3, "2 is known"
    mailbox.retain(0, now=START + 2 * DAY)
    assert documents(mailbox) == set()
    mailbox.take([referring(8, QUERIES)], START + 3 * DAY)
    assert len(documents(mailbox)) == 2, "2 is not there any more"
    assert [d.match for d in mailbox.matches("q1", 0, 9)] == [
        each_match([referring(8, QUERIES)])[1]
    ]


def test_many_at_once_are_stored_as_each_alone(tmp_path: Path) -> None:
    given = [referring(n, QUERIES[n % 3 : 3 + n % 2]) for n in range(75)]
    found = []
    for name, parts in (("once", [given]), ("alone", [[each] for each in given])):
        with Mailbox(tmp_path / name, clock=lambda: 0.0) as mailbox:
            assert sum(mailbox.take(part) for part in parts) == sum(map(len, given))
            numbers = sorted(documents(mailbox))
            with mailbox.db.snapshot() as db:
                stored = [*map(Reader(db).document, numbers)]
            found.append((mailbox.matches(None, 0, 1_000), numbers, stored))
    assert found[0] == found[1]
    assert len(found[0][0]) == sum(map(len, given))


def test_the_newest_documents_are_known(tmp_path: Path) -> None:
    one = len(referring(3, QUERIES).shared.xml()[0])
    with Mailbox(tmp_path / "mailbox.sqlite", documents=3 * one) as mailbox:
        mailbox.take([referring(3, QUERIES)])
        mailbox.take([referring(4, QUERIES)])
        assert len(documents(mailbox)) == 3, "1, 3, 4"
        mailbox.take([referring(5, QUERIES), referring(3, ["q6"])])
        assert len(documents(mailbox)) == 6, "1 and 3 were not known any more"


def test_a_large_document_is_not_stored_for_a_small_part(mailbox: Mailbox) -> None:
    found = referring(3, QUERIES)
    assert isinstance(found.shared, Rendering)
    large = f"<item><title>Tide 1</title>{'<p/>' * 5_000}</item>".encode()
    found.shared.contents = [Content(large, {}), found.shared.contents[1]]
    mailbox.take([found])
    assert documents(mailbox) == set()
    assert [d.match for d in mailbox.matches(None, 0, 9)] == each_match([found])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE document SET body = substr(body, 1, 20)",
        "DELETE FROM document",
        "UPDATE match SET docs = substr(docs, 1, 11) WHERE docs IS NOT NULL",
    ],
)
def test_a_damaged_match_is_told_and_those_before_it_are_read(
    mailbox: Mailbox, change: str
) -> None:
    mailbox.take([shared(0, QUERIES)], START)
    for number in (3, 4):
        mailbox.take([referring(number, QUERIES)], START)
    mailbox.take([shared(6, QUERIES)], START)
    first, *damaged, last = mailbox.matches("q2", 0, 9)
    mailbox.db.maintain(change)
    assert mailbox.matches("q2", 0, 9) == [first]
    assert mailbox.latest("q2", 9) == [last]
    assert mailbox.matches("q2", damaged[-1].n, 9) == [last]
    for n, each in zip((12, 18), damaged, strict=True):
        with pytest.raises(MailboxError, match=f"match {n} of the mailbox is damaged"):
            mailbox.matches("q2", each.n - 1, 9)
        with pytest.raises(MailboxError, match=f"match {n} of the mailbox is damaged"):
            mailbox.at([each.n])
    mailbox.drop("q2")
    mailbox.retain(0, now=START + 10 * DAY)
    assert rows(mailbox) == 0


def test_what_fails_leaves_no_audience(mailbox: Mailbox) -> None:
    trigger = "CREATE TRIGGER full BEFORE INSERT ON taken BEGIN SELECT RAISE(ABORT, 'full'); END"
    mailbox.db.maintain(trigger)
    with pytest.raises(RuntimeError, match="full"):
        mailbox.take([shared(0, QUERIES), referring(2, QUERIES)])
    mailbox.db.maintain("DROP TRIGGER full")
    mailbox.take([shared(1, ["q5", "q4"])])
    mailbox.take([shared(0, QUERIES)])
    mailbox.take([referring(2, ["q6"])])
    assert len(documents(mailbox)) == 2
    assert [d.match.query for d in mailbox.matches(None, 0, 9)] == ["q5", "q4", *QUERIES, "q6"]


# -- any number of operations, beside a mailbox that stores each alone -------------------------


@contextmanager
def both(directory: Path, documents: int) -> Iterator[list[Mailbox]]:
    with (
        Mailbox(directory / "shared.sqlite", documents=documents) as one,
        Mailbox(directory / "alone.sqlite") as other,
    ):
        yield [one, other]


def said(mailbox: Mailbox) -> dict[str, Any]:
    figures = mailbox.figures()
    return {
        "log": [
            (d.n, d.taken, d.left_out, d.match.to_json()) for d in mailbox.matches(None, 0, 999)
        ],
        "by query": {q: [d.n for d in mailbox.matches(q, 0, 999)] for q in QUERIES},
        "newest": {q: [d.n for d in mailbox.latest(q, 3)] for q in QUERIES},
        "dead": [(d.channel, d.n, d.match_id, d.subscription) for d in mailbox.dead()],
        "figures": (
            *(figures.last, figures.matches, figures.taken, figures.repeated, figures.left_out),
            *(figures.dead, figures.retries, figures.backlog, figures.oldest),
        ),
        "events": [e.text for e in mailbox.events(0, EVENTS_KEPT)],
    }


@pytest.mark.parametrize("seed", range(12))
def test_it_is_as_if_each_had_its_own(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    now, number = START, 0
    with both(tmp_path, random.choice((0, 300, REMEMBERED))) as mailboxes:
        one, other = mailboxes
        for name in ("q0", "q1", "q2", None):
            for mailbox in mailboxes:
                mailbox.put_channel(f"for {name}".replace(" ", "-"), "pull", subscription=name)
        hook = {"url": "http://tides.example/"}
        for mailbox in mailboxes:
            mailbox.put_channel("hook", "webhook", subscription="q3", settings=hook)
        for _ in range(40):
            now += random.randrange(DAY)
            what = random.random()
            name = random.choice(QUERIES)
            if what < 0.5:
                found = []
                for _ in range(random.randint(1, 3)):
                    number += random.random() < 0.8
                    some = [q for q in QUERIES if random.random() < 0.8] or QUERIES
                    found.append(random.choice((shared, referring))(number, some))
                alone: list[Match] = each_match(found)
                assert one.take(found, now) == other.take(alone, now)
            elif what < 0.75:
                channel = random.choice([c.name for c in one.channels() if c.kind == "pull"])
                place = random.randint(0, one.last())
                assert one.ack(channel, place) == other.ack(channel, place)
            elif what < 0.85:
                keep = random.choice([None, 0, DAY, 5 * DAY])
                late = random.choice([None, 3 * DAY])
                gone = {mailbox.retain(keep, late, now=now) for mailbox in mailboxes}
                assert len(gone) == 1
            elif what < 0.92:
                pending: Literal["deliver", "drop"] = random.choice(["deliver", "drop"])
                for mailbox in mailboxes:
                    mailbox.drop(name, pending)
                    mailbox.put_channel(f"for-{name}", "pull", subscription=name, after=0)
            elif what < 0.96:
                assert one.resend() == other.resend()
            else:
                for mailbox in mailboxes:
                    mailbox.reset_channel("for-None", 0)
            assert said(one) == said(other)
            documents(one)
        assert rows(one) < rows(other) or rows(other) < 20
        one.check()
