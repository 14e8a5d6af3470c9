"""The files of a state prove each other: what one of them has lost is found at the next start, and
refused, made good, or told."""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.service.access.access import Access
from broker.service.access.agreement import agree_access
from broker.service.access.scopes import Identity
from broker.service.core.core import Core
from broker.service.intake import Intake
from broker.state.proof import Proof, Proven
from broker.state.store import StateError
from feeds.spool import read_rows
from tests.service.data import ORDERS, order, settings
from tests.service.test_maintenance import subscribe


def opened(state: Path) -> Core:
    return Core(settings(state))


def accept(core: Core, *parts: object) -> None:
    """Accept orders, which are not matched yet."""
    Intake(core, lambda: 1.0).publish("S", [order(part) for part in parts])


def match_all(core: Core) -> None:
    rows = list(read_rows(core.spool.path, core.position, 2**62))
    if rows:
        core.apply(rows)


def parts(core: Core) -> list[str]:
    """The parts of the orders in the log, in order."""
    return [each.match.values["p"][0] for each in core.mailbox.matches(None, 0, 10_000)]


def told(core: Core) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in core.mailbox.events()]


class Died:
    """A state whose process died, as a copy of its files beside it; `pending` orders are accepted
    and not matched, `done` ones are in the log."""

    def __init__(self, directory: Path, done: int = 10, pending: int = 10) -> None:
        live = directory / "live"
        core = opened(live)
        subscribe(core, ORDERS)
        accept(core, *range(done))
        match_all(core)
        core.prove()
        self.older = directory / "older"
        shutil.copytree(live, self.older)
        accept(core, *range(done, done + pending))
        self.state = directory / "state"
        shutil.copytree(live, self.state)
        core.close()
        self.live = live

    def files(self, name: str) -> list[Path]:
        return sorted(self.state.glob(f"{name}*"))

    def put_older(self, name: str) -> None:
        for path in self.files(name):
            path.unlink()
        for path in self.older.glob(f"{name}*"):
            shutil.copy(path, self.state)


@pytest.fixture
def died(tmp_path: Path) -> Died:
    return Died(tmp_path)


def test_what_is_as_it_was_tells_nothing(died: Died) -> None:
    core = opened(died.state)
    assert told(core) == []
    assert core.backlog() == 10
    match_all(core)
    assert parts(core) == [str(n) for n in range(20)]
    core.close()
    again = opened(died.state)
    assert told(again) == []
    assert parts(again) == [str(n) for n in range(20)]
    again.close()


def test_documents_that_the_log_has_lost_are_told(died: Died) -> None:
    """Half of what was accepted was in the write-ahead log, and is gone."""
    died.put_older("spool.sqlite")
    core = opened(died.state)
    ((kind, text),) = told(core)
    assert kind == "state.lost"
    assert "documents 11 to 20 were accepted" in text
    assert core.backlog() == 0
    accept(core, "new")
    assert core.spool.last_seq() == 21
    match_all(core)
    assert parts(core)[-1] == "new"
    core.close()
    again = opened(died.state)
    assert len(told(again)) == 1
    again.close()


def test_a_part_of_the_documents_is_matched_and_the_rest_is_told(tmp_path: Path) -> None:
    live = tmp_path / "live"
    core = opened(live)
    subscribe(core, ORDERS)
    accept(core, 0, 1)
    shutil.copytree(live, tmp_path / "older")
    accept(core, 2, 3)
    shutil.copytree(live, tmp_path / "state")
    core.close()
    for path in (tmp_path / "older").glob("spool.sqlite*"):
        shutil.copy(path, tmp_path / "state")
    core = opened(tmp_path / "state")
    ((kind, text),) = told(core)
    assert (kind, "documents 3 to 4 were accepted" in text) == ("state.lost", True)
    match_all(core)
    assert core.backlog() == 0
    accept(core, "new")
    match_all(core)
    assert parts(core) == ["0", "1", "new"]
    core.close()


def test_a_log_that_has_lost_what_was_matched_goes_on_behind_it(died: Died) -> None:
    core = opened(died.state)
    match_all(core)
    core.prove()
    core.close()
    died.put_older("spool.sqlite")
    core = opened(died.state)
    ((kind, text),) = told(core)
    assert (kind, "11 to 20 were all matched" in text) == ("state.repaired", True)
    accept(core, "new")
    assert core.spool.last_seq() == 21
    match_all(core)
    assert parts(core) == [*map(str, range(20)), "new"]
    core.close()


def test_a_lost_mailbox_gets_its_matches_again(died: Died) -> None:
    for path in died.files("mailbox.sqlite"):
        path.unlink()
    core = opened(died.state)
    assert [kind for kind, _ in told(core)] == ["state.repaired", "state.lost"]
    assert parts(core) == [str(n) for n in range(10)]
    core.close()


def test_an_older_mailbox_gets_its_matches_again(died: Died) -> None:
    core = opened(died.state)
    match_all(core)
    core.prove()
    numbers = core.mailbox.last()
    core.close()
    died.put_older("mailbox.sqlite")
    core = opened(died.state)
    ((kind, text),) = told(core)
    assert (kind, "10 matches again" in text) == ("state.repaired", True)
    assert parts(core) == [str(n) for n in range(20)]
    assert core.mailbox.last() > numbers
    core.close()


def test_channels_that_may_have_changed_are_told_beside_what_was_repaired(died: Died) -> None:
    core = opened(died.state)
    core.mailbox.put_channel("desk", "pull", subscription="orders")
    match_all(core)
    core.prove()
    core.close()
    died.put_older("mailbox.sqlite")
    core = opened(died.state)
    (repaired, _), (kind, text) = told(core)
    assert (repaired, kind) == ("state.repaired", "state.lost")
    assert "Channels may have changed" in text
    assert parts(core) == [str(n) for n in range(20)]
    core.close()


def test_matches_that_nobody_has_any_more_are_told(died: Died) -> None:
    core = opened(died.state)
    match_all(core)
    core.engine.release(-1)
    core.close()
    died.put_older("mailbox.sqlite")
    core = opened(died.state)
    ((kind, text),) = told(core)
    assert kind == "state.lost"
    assert "10 matches, up to number 20" in text
    core.close()


def test_matches_of_a_dropped_subscription_are_not_handed_over_to_its_successor(
    died: Died,
) -> None:
    core = opened(died.state)
    core.engine.unsubscribe("orders")
    core.mailbox.drop("orders", "drop")
    subscribe(core, ORDERS)
    core.close()
    for path in died.files("mailbox.sqlite"):
        path.unlink()
    core = opened(died.state)
    assert parts(core) == []
    core.close()


def test_an_older_engine_matches_again(died: Died) -> None:
    core = opened(died.state)
    match_all(core)
    core.close()
    died.put_older("broker.duckdb")
    core = opened(died.state)
    ((kind, text),) = told(core)
    assert kind == "state.repaired"
    assert "documents 11 to 20 are matched again" in text
    match_all(core)
    assert parts(core) == [str(n) for n in range(20)]
    core.close()


def test_lost_changes_of_subscriptions_are_told(died: Died) -> None:
    core = opened(died.state)
    core.engine.pause("orders")
    subscribe(core, ORDERS.replace("orders", "more"))
    core.close()
    died.put_older("broker.duckdb")
    core = opened(died.state)
    ((kind, text),) = told(core)
    assert kind == "state.older"
    assert "the last 2 changes of subscriptions" in text
    core.close()


def test_a_missing_engine_is_refused(died: Died) -> None:
    for path in died.files("broker.duckdb"):
        path.unlink()
    for _ in range(2):  # nothing is made by the attempt
        with pytest.raises(StateError, match="missing, with all subscriptions"):
            opened(died.state)
    (died.state / "proof").unlink()
    core = opened(died.state)
    assert core.backlog() == 20
    core.close()


@pytest.mark.parametrize("name", ["spool.sqlite", "mailbox.sqlite"])
def test_a_file_of_another_state_is_refused(died: Died, tmp_path: Path, name: str) -> None:
    other = Died(tmp_path / "other", 15, 15)
    for path in died.files(name):
        path.unlink()
    for path in other.files(name):
        shutil.copy(path, died.state)
    with pytest.raises(StateError, match=f"{name}: not the file that this state had"):
        opened(died.state)


def _flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def test_a_flipped_bit_in_a_document_makes_it_a_dead_letter(died: Died) -> None:
    core = opened(died.state)
    core.close()  # the write-ahead log is in the file now
    path = died.state / "spool.sqlite"
    _flip(path, path.read_bytes().index(b"<part>13</part>") + 6)
    core = opened(died.state)
    ((kind, text),) = told(core)
    assert kind == "state.lost"
    assert "post:S/" in text
    assert "publish it again" in text
    match_all(core)
    assert parts(core) == [str(n) for n in range(20) if n != 13]
    (letter,) = core.engine.letters()
    assert letter.reason.startswith("damaged on the disk")
    core.close()


# -- the proof itself ----------------------------------------------------------------------------


def test_a_proof_whose_last_record_was_torn_has_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "proof"
    proof = Proof(path)
    for number in (1, 2, 3):
        proof.note(documents=number)
        proof.sync()
    proof.close()
    whole = path.read_bytes()
    found = set()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        again = Proof(path)
        assert again.found is not None
        found.add(again.found.documents)
        again.close()
    assert found == {2, 3}


def _missing(path: Path) -> None:
    path.unlink()


def _rubbish(path: Path) -> None:
    path.write_bytes(b"\xff" * 8192)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


@pytest.mark.parametrize("damage", [_missing, _rubbish, _cut])
def test_a_proof_that_is_lost_is_told(died: Died, damage: Callable[[Path], None]) -> None:
    damage(died.state / "proof")
    core = opened(died.state)
    ((kind, text),) = told(core)
    assert (kind, "nobody can say" in text) == ("state.lost", True)
    core.close()
    again = opened(died.state)
    assert len(told(again)) == 1
    again.close()


def test_records_of_the_proof_are_synced_together(tmp_path: Path) -> None:
    proof = Proof(tmp_path / "proof")
    assert proof.found is None
    proof.note_documents(5, 55)
    proof.note_documents(4, 44)  # a thread that comes late
    proof.close()
    again = Proof(tmp_path / "proof")
    assert again.found == Proven(documents=5, chain=55)
    again.close()


def test_an_older_or_a_missing_file_of_tokens_is_told(tmp_path: Path) -> None:
    """Once: the entries of the log of changes go on above those that are gone."""
    state, older = tmp_path / "state", tmp_path / "older"

    def lives(*actions: str, before: Callable[[], object] = lambda: None) -> list[str]:
        before()
        core = opened(state)
        access = Access(state, core.now)
        agree_access(access, core.proof, core.mailbox.record_event)
        for action in actions:
            access.log.record(Identity("", frozenset()), "127.0.0.1", action, "desk", {})
        found = [text for kind, text in told(core) if kind == "state.lost"]
        if not older.exists():
            older.mkdir()
            access.backup(older)
        access.close()
        core.close()
        return found

    def put_older() -> None:
        for path in state.glob("access.sqlite*"):
            path.unlink()
        shutil.copy(older / "access.sqlite", state)

    def remove() -> None:
        (state / "access.sqlite").unlink()

    assert lives("addToken") == []
    assert lives("revokeToken", "addToken") == []
    (text,) = lives(before=put_older)
    assert "older than it was: the last 2 entries" in text
    assert lives("addToken") == [text]
    _, text = lives(before=remove)
    assert "the last 4 entries" in text


def test_a_proof_of_the_version_before_is_read(tmp_path: Path) -> None:
    record = struct.pack("<8sQ9q", b"XBPROOF1", 7, *range(1, 10))
    record += struct.pack("<I", zlib.crc32(record))
    (tmp_path / "proof").write_bytes(record.ljust(3 * 4_096, b"\0"))
    proof = Proof(tmp_path / "proof")
    assert proof.found == Proven._make([*range(1, 10), 0])
    proof.note(entry=5)
    proof.close()
    proof = Proof(tmp_path / "proof")
    assert proof.found == Proven._make([*range(1, 10), 5])
    proof.close()
