"""Documents of packs that the spool has lost match no more, and hold up nothing."""

from __future__ import annotations

import pytest

from feeds.packs import MOST
from feeds.spool import read_rows
from tests.service.data import order, receipt
from tests.service.desk import Desk, N, lose, orders, pair

pytestmark = pytest.mark.usefixtures("small_packs")


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "at the start"])
def test_what_is_lost_matches_no_more_and_stops_nobody(desk: Desk, restarted: bool) -> None:
    desk.subscribe()
    desk.subscribe("next: S//order[./part->p] NEXT {p = q, 1 hour} S//receipt[./part->q];")
    desk.publish(*orders())
    desk.core.trim()
    lose(desk, f"seq = {MOST}")
    if restarted:
        desk.again()
    else:
        with pytest.raises(Exception, match=f"pack {MOST}, which was matched, is missing"):
            desk.publish(receipt(3), receipt(MOST + 3))
        desk.upkeep.tick()
    assert desk.events() == [
        f"spool.sqlite has lost {MOST} documents that were matched, and with them 0 matches that "
        "were not handed over: new documents do not match these any more. Restore a backup, or "
        "publish them again"
    ]
    if restarted:
        desk.intake.publish("S", [receipt(3), receipt(MOST + 3)])
    desk.match()
    assert [pair(MOST + 3) in each.result for each in desk.found()] == [True] * len(desk.found())
    assert desk.found()
    desk.publish(*orders(2, revision=True), receipt(1))
    assert pair(1) in desk.found()[-1].result
    desk.again()
    assert len(desk.events()) == 1


def test_matches_of_the_outbox_whose_documents_are_lost_are_told_of(desk: Desk) -> None:
    desk.subscribe()
    desk.publish(*orders())
    desk.core.trim()
    desk.publish_in_vain(*[receipt(n) for n in (1, 2, MOST + 1)])
    lose(desk, f"seq = {MOST}")
    desk.again()
    assert "with them 2 matches that were not handed over" in desk.events()[0]
    desk.core.empty_outbox()
    assert [pair(MOST + 1) in each.result for each in desk.found()] == [True]


def test_a_spool_that_is_gone_has_lost_all(desk: Desk) -> None:
    desk.subscribe()
    desk.publish(*orders())
    desk.publish(order("alone"))
    desk.core.close()
    for each in desk.core.state.glob("spool.sqlite*"):
        each.unlink()
    desk.open()
    assert any(f"has lost {N} documents that were matched" in text for text in desk.events())
    desk.publish(receipt(3), receipt("alone"))
    assert ["<part>alone</part>" in each.result for each in desk.found()] == [True]


def test_what_matches_handed_over_lately_refer_to_may_be_lost(desk: Desk) -> None:
    """They are looked at when the service starts."""
    desk.subscribe()
    for n in range(3):
        desk.publish(*orders(10, f"{n}-"))
    desk.publish(receipt(3))
    desk.core.trim()
    lose(desk, "seq = 20")
    desk.again()
    assert len(desk.found()) == 3
    assert "has lost 10 documents that were matched, and with them 0 matches" in desk.events()[0]
    desk.publish(receipt(4))
    assert len(desk.found()) == 5


def test_damage_that_is_found_in_the_rest_of_a_pack_leaves_those_that_were_matched(
    desk: Desk,
) -> None:
    desk.subscribe()
    desk.intake.publish("S", orders(10))
    rows = [*read_rows(desk.core.reading, 0, 2**62)]
    desk.core.apply(rows[:6])
    with desk.core.spool._adding():
        pass  # what is beside the tables comes there
    db = desk.core.spool._db
    ((xml,),) = db.execute("SELECT xml FROM document").fetchall()
    db.execute("UPDATE document SET xml = ?", [xml[:-3] + b"X" + xml[-2:]])
    desk.again()
    assert ["o9 is damaged" in text for text in desk.events()] == [True]
    desk.match()
    desk.core.trim()
    desk.publish(receipt(1), receipt(7), receipt(9))
    assert [[pair(n) in each.result for n in (1, 7)] for each in desk.found()] == [
        [True, False],
        [False, True],
    ]
    assert len(desk.events()) == 1
