"""Documents that were published together stay in packs of the spool while the engine needs them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document
from broker.service.access.access import Access
from broker.service.backup import back_up, restore
from broker.service.core.answers import Posted
from broker.service.core.core import Core
from broker.state.logged_documents import all_references
from broker.state.relations import MatchRelations
from broker.state.statements import Statements
from feeds.packs import KEPT, MOST
from feeds.references import is_reference
from tests.seeds import seeds
from tests.service.data import HOUR, order, receipt
from tests.service.desk import Desk, N, orders, pair

pytestmark = pytest.mark.usefixtures("small_packs")


def test_the_tables_have_references(desk: Desk) -> None:
    desk.subscribe()
    desk.publish(*orders())
    desk.publish(receipt(3))
    assert [is_reference(xml) for xml in desk.stored()] == [True] * N + [False]
    assert desk.core.trim() == N + 1
    assert desk.packs() == [MOST, N]
    desk.publish(receipt(5), receipt(MOST + 1))
    assert [pair(n) in each.result for n, each in zip((3, 5, MOST + 1), desk.found(), strict=True)]
    relations = desk.core.engine.relations
    documents = relations.documents([*range(1, N + 1)])
    assert [each.xml for each in documents.values()] == [each.xml for each in orders()]
    assert relations.stored_bytes("post:S") == sum(
        map(len, [each.xml for each in documents.values()])
    ) + sum(len(receipt(n).xml) for n in (3, 5, MOST + 1))


def test_packs_of_few_documents_are_not_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    desk.subscribe()
    desk.publish(*orders(KEPT - 1, "few"))
    desk.publish(*orders(KEPT, "many"))
    assert [is_reference(xml) for xml in desk.stored()] == [False] * (KEPT - 1) + [True] * KEPT
    desk.core.trim()
    assert desk.packs() == [2 * KEPT - 1]


def test_they_are_there_after_a_restart(desk: Desk) -> None:
    desk.subscribe()
    desk.publish(*orders())
    for step in range(3):
        desk.again()
        desk.publish(receipt(step), receipt(MOST + step))
        desk.core.trim()
    assert len(desk.found()) == 6
    assert [
        pair(n) in each.result for n, each in zip((0, 64, 1, 65, 2, 66), desk.found(), strict=True)
    ] == [True] * 6


def test_what_has_expired_is_deleted(desk: Desk) -> None:
    desk.subscribe()
    begin = desk.core.now() - 9 * HOUR
    desk.publish(*orders(timestamp=begin))
    desk.core.trim()
    assert desk.packs() == [MOST, N]
    desk.publish(*orders(N, "p", timestamp=begin + HOUR))
    desk.upkeep.retain()
    desk.core.trim()
    assert desk.packs() == [MOST, N, N + MOST, 2 * N]
    with desk.core.engine.store.snapshot():
        desk.publish(order("last", timestamp=begin + 3 * HOUR))
        desk.upkeep.retain()
        assert len(desk.stored()) == 1
        desk.core.trim()
        assert len(desk.packs()) == 4  # the snapshot may read them
    desk.core.trim()
    assert desk.packs() == []


def test_what_is_dated_beyond_the_clock_keeps_nothing_else(desk: Desk) -> None:
    desk.subscribe()
    begin = desk.core.now() - 9 * HOUR
    late = order("late", timestamp=begin + 999 * HOUR)
    desk.publish(*orders(5, timestamp=begin), late)
    assert [is_reference(xml) for xml in desk.stored()] == [*[True] * 5, False]
    desk.core.trim()
    assert desk.packs() == [6]
    desk.upkeep.retain()
    desk.core.trim()
    assert desk.packs() == []
    assert desk.stored() == [late.xml]


def test_a_snapshot_finds_what_was_there(desk: Desk) -> None:
    """Also what expires, is matched or is moved meanwhile."""
    desk.subscribe()
    begin = desk.core.now() - 9 * HOUR
    desk.publish(*orders(timestamp=begin))
    with desk.core.engine.store.snapshot() as statements:
        desk.publish(
            order("last", timestamp=begin + 3 * HOUR), order("2", timestamp=begin + 3 * HOUR)
        )
        desk.upkeep.retain()
        desk.core.trim()
        (found,) = MatchRelations(statements).history(1, 1_000)
        assert [each.xml for each in found] == [each.xml for each in orders()]


def test_a_backup_has_them(desk: Desk, tmp_path: Path) -> None:
    desk.subscribe()
    desk.publish(*orders(MOST))
    desk.core.trim()
    desk.publish(*orders(3, "p"))
    access = Access(desk.core.state, desk.core.now)
    back_up(desk.core, access, tmp_path / "backup")
    access.close()
    restore(tmp_path / "backup", tmp_path / "restored")
    again = Desk(tmp_path / "restored")
    again.publish(receipt(1))
    assert len(again.found()) == 2
    assert all(pair(1) in each.result for each in again.found())
    again.core.close()


def test_matches_that_wait_in_the_outbox_find_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the documents have expired, or are others by now."""
    desk.subscribe()
    begin = desk.core.now() - 9 * HOUR
    desk.publish(*orders(timestamp=begin))
    desk.core.trim()
    desk.publish_in_vain(*[receipt(n, timestamp=begin + 1, id=f"r{n}") for n in range(9)])
    desk.core.committed()
    changed = [order(n, "Bonn", id=f"o{n}", timestamp=begin, revision=True) for n in range(5)]
    with monkeypatch.context() as patched:
        patched.setattr(desk.core.handing, "hand_over", lambda _: None)
        desk.publish(*changed)
        desk.publish(order("last", timestamp=begin + 3 * HOUR))
    desk.upkeep.retain()
    assert len(desk.stored()) == 1
    desk.core.trim()
    assert desk.packs()
    desk.core.empty_outbox()
    assert [pair(n) in each.result for n, each in enumerate(desk.found()[:9])] == [True] * 9
    desk.core.engine.release(-1)
    desk.core.trim()
    assert desk.packs() == []


def test_the_library_reads_a_state_of_a_service(desk: Desk) -> None:
    desk.subscribe()
    desk.publish(*orders())
    desk.core.trim()
    desk.publish(*[order(n, id=f"p{n}") for n in range(3)])
    last = desk.core.now()
    desk.core.close()
    with Broker(desk.core.state) as broker:
        found = broker.process([Document("r", "S", last / 1e6, receipt(1).xml)])
    desk.open()
    assert len(found) == 2
    assert all(pair(1) in each.result for each in found)


@pytest.mark.parametrize("seed", seeds(1, 60))
def test_matches_are_those_of_documents_in_the_tables(tmp_path: Path, seed: int) -> None:
    """Whether they come together or one by one, with revisions, expiry and restarts between."""
    random = Random(seed)
    packed = Desk(tmp_path / "packed")
    single = Desk(tmp_path / "single")
    begin, clock, count = packed.core.now() - 100 * HOUR, 0, 0
    for each in (packed, single):
        each.subscribe()
        each.subscribe("next: S//order[./part->p] NEXT {p = q, 1 hour} S//receipt[./part->q];")
    for _ in range(12):
        documents: list[Posted] = []
        for _ in range(random.choice([1, 3, 40, MOST, MOST + 9])):
            clock += random.randrange(HOUR // 60)
            count += 1
            revised = count > 5 and random.random() < 0.1
            make = random.choice([order, receipt])
            site = random.choice(["Kiel", "Bonn", "Köln"])
            number = random.randint(1, count) if revised else count
            part = random.randrange(20)
            documents.append(
                make(part, site, id=f"d{number}", timestamp=begin + clock, revision=revised)
            )
        packed.publish(*documents)
        for document in documents:
            single.publish(document)
        if random.random() < 0.5:
            for each in (packed, single):
                each.upkeep.retain()
                each.core.trim()
        if random.random() < 0.3:
            packed.again()
    assert [each.result for each in packed.found()] == [each.result for each in single.found()]
    assert packed.found()
    assert all_references(packed.core.engine.store)
    packed.core.close()
    single.core.close()


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-16-le", "utf-32-be", "utf-8"])
def test_a_document_in_any_encoding_is_no_reference(desk: Desk, encoding: str) -> None:
    text = f"<?xml version='1.0' encoding='{encoding}'?><order><part>1</part><site/></order>"
    desk.subscribe()
    desk.publish(Posted(text.encode(encoding), id="alone"))
    desk.publish(*orders(3))
    desk.core.trim()
    desk.again()
    assert [is_reference(xml) for xml in desk.stored()] == [False, True, True, True]
    size = len(text.encode(encoding)) + sum(len(each.xml) for each in orders(3))
    assert desk.core.engine.relations.stored_bytes("post:S") == size
    desk.publish(receipt(1))
    assert len(desk.found()) == 2


def test_a_snapshot_that_is_opened_while_packs_are_deleted_finds_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.subscribe()
    begin = desk.core.now() - 9 * HOUR
    desk.publish(*orders(10, "older-", timestamp=begin - 3 * HOUR))
    desk.publish(*orders(10, timestamp=begin))
    desk.core.trim()
    desk.upkeep.retain()
    assert len(desk.stored()) == 10
    store, opened = desk.core.engine.store, ExitStack()
    catch_up = store.catch_up

    def slow() -> None:
        monkeypatch.setattr(store, "catch_up", catch_up)
        found.append(opened.enter_context(store.snapshot()))
        desk.publish(order("last", timestamp=begin + 3 * HOUR))
        desk.upkeep.retain()
        catch_up()

    found: list[Statements] = []
    monkeypatch.setattr(store, "catch_up", slow)
    desk.core.trim()
    assert found
    with opened:
        (documents,) = MatchRelations(found[0]).history(1, 1_000)
        assert len(documents) == 10
    desk.core.trim()
    assert desk.packs() == []


def test_snapshots_that_overlap_all_the_time_keep_little(desk: Desk) -> None:
    desk.subscribe()
    begin = desk.core.now() - 90 * HOUR
    store, before = desk.core.engine.store, ExitStack()
    for n in range(20):
        with ExitStack() as opened:
            opened.enter_context(store.snapshot())
            before.close()
            desk.publish(*orders(10, f"{n}-", timestamp=begin + 2 * n * HOUR))
            desk.upkeep.retain()
            desk.core.trim()
            before = opened.pop_all()
    assert len(desk.packs()) <= 3
    before.close()


def test_after_a_clock_was_wrong_nothing_is_kept_for_its_sake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents that were dated by it outlive all others for years."""
    ahead, passed = 20 * 365 * 24 * HOUR, 0
    monkeypatch.setattr(
        "tests.service.desk.Core",
        partial(
            Core,
            clock=lambda: 1_700_000_000 + (ahead + passed) / 1e6,
            steady=lambda: passed,
        ),
    )
    desk = Desk(tmp_path / "state")
    desk.subscribe()
    desk.publish(*orders(5, "wrong"))
    ahead = 0
    for hour in range(30):
        passed += HOUR
        desk.publish(*orders(5, f"{hour}-"))
        desk.upkeep.tick()
        desk.upkeep.retain()
        desk.core.trim()
    assert len(desk.packs()) <= 3
    desk.core.close()
