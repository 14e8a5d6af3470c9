"""What was decided of a document as it was is not decided again where a revision moves it to a time
that has not come: in memory, over restarts, after several revisions, for all subscribers, in shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker import Broker, Document
from tests.cluster.brokers import sharded

TEXTS = {
    "next": "S/a NEXT S/b",
    "not in the middle": "S/a FOLLOWED BY NOT S/c FOLLOWED BY S/b",
    "group at the end": "S/a FOLLOWED BY (S/b)+ WITHIN 1 s",
    "run": "S/a FOLLOWED BY (S/b)+ USING SKIP TILL NEXT MATCH",
    "contiguous": "S/a FOLLOWED BY S/b USING STRICT CONTIGUITY",
    "fold": "S/a FOLD {,} S/b",
    "or": "S/a NEXT (S/b OR S/d)",
    "windows": "S/a->x FOLLOWED BY S/b GROUP BY x OVER 60 s",
}
OPEN = "S/a NEXT S/b"


def doc(id: str, at: float, *, revision: bool = False, tag: str = "") -> Document:
    return Document(id, timestamp=at, xml=f"<{tag or id[0]}/>", source="f", revision=revision)


PUBLISHED = [doc("a1", 1), doc("b2", 2), doc("z9", 9)]


class Feed:
    """A broker that is opened again for each document, or stays open, and all that it publishes."""

    def __init__(self, state: Path, shared: Path | None, stays: bool) -> None:
        self._state, self._shared, self._stays = state, shared, stays
        self._open: Broker | None = None
        self.ids: list[str] = []

    @contextmanager
    def broker(self) -> Iterator[Broker]:
        if self._open is None:
            self._open = (
                Broker(self._state, lateness=0.0)
                if self._shared is None
                else sharded(self._shared, 2, self._state, lateness=0.0)
            )
        yield self._open
        if not self._stays:
            self.close()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def publish(self, *documents: Document) -> list[str]:
        """What comes of documents, one by one, by the ids of the documents of each match."""
        found: list[str] = []
        for document in documents:
            with self.broker() as broker:
                matches = broker.process([document])
            self.ids += [match.id for match in matches]
            found += [" ".join(each.id for each in match.documents) for match in matches]
        return found


@pytest.fixture(params=["one broker", "restarts", "shards"])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Feed]:
    shared = None
    if request.param == "shards":
        shared = tmp_path / "shared"
        shared.mkdir()
    of = Feed(tmp_path / "state", shared, stays=request.param != "restarts")
    yield of
    of.close()


@pytest.mark.parametrize("name", TEXTS)
def test_a_match_is_published_once(name: str, feed: Feed) -> None:
    with feed.broker() as broker:
        broker.subscribe(f"q: {TEXTS[name]}")
    assert feed.publish(*PUBLISHED) == ["a1 b2"]
    # Once it is decided, the document moves on; then it is another one for a while, and comes back.
    assert feed.publish(doc("b2", 20, revision=True), doc("z21", 21)) == []
    assert feed.publish(doc("b2", 22, revision=True, tag="z"), doc("z23", 23)) == []
    assert feed.publish(doc("b2", 30, revision=True), doc("z31", 31), doc("z99", 99)) == []
    assert len({*feed.ids}) == len(feed.ids)


def test_what_was_published_takes_no_place_from_others(feed: Feed) -> None:
    """Where matches of one partition may not overlap."""
    with feed.broker() as broker:
        broker.subscribe("q: S/b PARTITION BY . USING NON OVERLAPPING")
    assert feed.publish(doc("b1", 1), doc("z2", 2)) == ["b1"]
    assert feed.publish(doc("b5", 5), doc("b1", 5, revision=True), doc("z9", 9)) == ["b5"]


def test_what_is_not_decided_counts_as_it_is_now(feed: Feed) -> None:
    with feed.broker() as broker:
        broker.subscribe(f"q: {OPEN}")
    feed.publish(*PUBLISHED, doc("a10", 10), doc("b2", 12, revision=True))
    assert feed.publish(doc("z13", 13)) == ["a10 b2"]


def test_a_match_that_a_revision_forbids_and_another_one_allows_is_published_once(
    feed: Feed,
) -> None:
    """No revised document is in it."""
    with feed.broker() as broker:
        broker.subscribe("q: S/a FOLLOWED BY NOT S/c FOLLOWED BY S/b")
    assert feed.publish(doc("a1", 1), doc("z2", 2), doc("b3", 3), doc("z4", 4)) == ["a1 b3"]
    assert feed.publish(doc("z2", 2, revision=True, tag="c")) == []
    assert feed.publish(doc("b3", 9, revision=True)) == []
    assert feed.publish(doc("z2", 2, revision=True, tag="z"), doc("z10", 10)) == []


def test_the_subscriber_that_stays_knows_what_was_published(feed: Feed) -> None:
    with feed.broker() as broker:
        broker.subscribe(f"p: {OPEN}; q: {OPEN}")
    feed.publish(*PUBLISHED, doc("b2", 20, revision=True))
    with feed.broker() as broker:
        broker.unsubscribe("p")
    feed.publish(doc("z21", 21))
    assert len(feed.ids) == len({*feed.ids}) == 2


def test_what_is_noted_goes_with_the_document(tmp_path: Path) -> None:
    with Broker(tmp_path, lateness=0.0) as broker:
        broker.subscribe("q: S/a NEXT {50 s} S/b")
        for document in (*PUBLISHED, doc("b2", 20, revision=True), doc("b2", 30, revision=True)):
            broker.process([document])
        tables = broker.engine.standings.tables
        broker.engine.expire()
        assert tables.count_marks()
        broker.process([doc("z999", 999)])
        broker.engine.expire()
        assert not tables.count_marks()
