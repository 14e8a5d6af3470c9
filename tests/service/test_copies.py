"""Backups of a running state, and states that are restored from them."""

from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.delivery import MailboxError
from broker.service.backup import MANIFEST, restore
from broker.service.core.answers import BackedUp, ChannelSpec
from broker.service.core.core import RESTORING
from broker.service.core.errors import Conflict, Invalid
from broker.service.service import Service
from broker.state.store import StateError
from tests.service.data import ORDERS, Publisher, applied, found, order, serving, settings
from tests.waiting import until


def test_a_copy_made_while_documents_flow_is_a_state_that_goes_on(tmp_path: Path) -> None:
    copy, state = tmp_path / "copy", tmp_path / "new"
    with serving(tmp_path / "state") as service:
        service.subscriptions.subscribe(ORDERS, channels=[ChannelSpec("pull")])
        with Publisher(service) as publisher:
            until(lambda: service.figures().spool.applied > 30)
            done = service.backup(copy)
            at_least = service.figures().spool.applied
            until(lambda: publisher.count > at_least + 30)
        applied(service, publisher.count)
        with pytest.raises(Conflict, match="not empty"):
            service.backup(copy)
        token = service.token
    files = {"access.sqlite", "broker.duckdb", "mailbox.sqlite", "proof", "spool.sqlite", "token"}
    assert set(done.files) == files
    assert copy.stat().st_mode & 0o077 == 0
    restore(copy, state)
    with serving(state) as restored:
        assert restored.token == token
        last = restored.figures().spool.last
        assert last >= 30
        applied(restored, last)
        until(lambda: len(found(restored, "orders")) >= last)  # handed over after the commit
        assert found(restored, "orders") == [[f"o{n}"] for n in range(1, last + 1)]
        assert len(restored.channels.pull("orders.pull", last + 1)) == last
        applied(restored, restored.intake.publish("S", [order(1, id="next")]).last)
        assert found(restored, "orders")[-1] == ["next"]


def test_who_reads_on_behind_a_number_misses_nothing_after_a_restore(tmp_path: Path) -> None:
    copy, state = tmp_path / "copy", tmp_path / "new"
    with serving(tmp_path / "state") as service:
        service.subscriptions.subscribe(ORDERS)
        applied(service, service.intake.publish("S", [order(1, id="before")]).last)
        service.backup(copy)
        applied(
            service, service.intake.publish("S", [order(1, id=f"lost{n}") for n in range(5)]).last
        )
        last = service.mailbox.matches("orders", 0, 100)[-1].n
    restore(copy, state)
    with serving(state) as restored:
        applied(restored, restored.intake.publish("S", [order(1, id="after")]).last)
        (one,) = restored.mailbox.matches("orders", last, 100)
        assert [d.id for d in one.match.documents] == ["after"]
        assert [d.n for d in restored.mailbox.matches("orders", 0, 100)] == [1, one.n]
        assert restored.mailbox.figures().matches == 2


def test_what_is_no_whole_copy_is_refused(tmp_path: Path) -> None:
    copy, state = tmp_path / "copy", tmp_path / "new"
    with serving(tmp_path / "state") as service:
        service.backup(copy)
    with pytest.raises(Conflict, match="not empty"):
        restore(copy, tmp_path / "state")
    manifest = (copy / MANIFEST).read_bytes()
    (copy / MANIFEST).unlink()
    with pytest.raises(Invalid, match="no backup, or one that was not finished"):
        restore(copy, state)
    (copy / MANIFEST).write_bytes(manifest.replace(b"broker.duckdb", b"../outside"))
    with pytest.raises(Invalid, match="not the files of a state"):
        restore(copy, state)
    (copy / MANIFEST).write_bytes(manifest)
    spool = copy / "spool.sqlite"
    damaged = bytearray(spool.read_bytes())
    damaged[-1] ^= 1
    spool.write_bytes(damaged)
    with pytest.raises(Invalid, match=r"spool\.sqlite: not as it was written"):
        restore(copy, state)
    assert not state.exists()


def test_of_copies_made_at_once_in_one_place_one_is_made_and_is_whole(tmp_path: Path) -> None:
    count = 4
    with serving(tmp_path / "state") as service, ThreadPoolExecutor(count) as pool:
        service.subscriptions.subscribe(ORDERS)
        for n in range(3):
            copy, begin = tmp_path / f"copy{n}", threading.Barrier(count)

            def back_up(copy: Path = copy, begin: threading.Barrier = begin) -> BackedUp | None:
                begin.wait()
                try:
                    return service.backup(copy)
                except Conflict:
                    return None

            done = [future.result() for future in [pool.submit(back_up) for _ in range(count)]]
            assert len([each for each in done if each]) == 1
            restore(copy, tmp_path / f"new{n}")


@pytest.mark.parametrize("linked", [False, True])
def test_a_directory_that_is_there_is_filled_and_not_replaced(tmp_path: Path, linked: bool) -> None:
    """It may be where a volume is mounted, or behind a link."""
    copy, state, link = tmp_path / "copy", tmp_path / "new", tmp_path / "link"
    with serving(tmp_path / "state") as service:
        service.subscriptions.subscribe(ORDERS)
        applied(service, service.intake.publish("S", [order(1, id="one")]).last)
        service.backup(copy)
    state.mkdir()
    link.symlink_to(state)
    before = state.stat().st_ino
    (state / RESTORING).mkdir()  # as if it had been killed while it copied
    restore(copy, link if linked else state)
    assert state.stat().st_ino == before
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "link", "new", "state"]
    assert not (state / RESTORING).exists()
    with serving(state) as restored:
        assert found(restored, "orders") == [["one"]]


@pytest.mark.parametrize("there", [False, True])
def test_a_copy_that_cannot_be_restored_leaves_nothing_behind(tmp_path: Path, there: bool) -> None:
    """Its files are as the manifest says, and one is none of ours."""
    copy, state = tmp_path / "copy", tmp_path / "new"
    with serving(tmp_path / "state") as service:
        service.backup(copy)
    if there:
        state.mkdir()
    other = b"no mailbox"
    (copy / "mailbox.sqlite").write_bytes(other)
    manifest = json.loads((copy / MANIFEST).read_bytes())
    digest = hashlib.sha256(other).hexdigest()
    manifest["files"]["mailbox.sqlite"] = {"bytes": len(other), "sha256": digest}
    (copy / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(MailboxError, match="not a database"):
        restore(copy, state)
    assert state.exists() == there
    assert not list(tmp_path.rglob(f"*{RESTORING}"))
    assert not there or not list(state.iterdir())


def test_no_service_starts_where_not_all_is_restored(tmp_path: Path) -> None:
    (tmp_path / "state" / RESTORING).mkdir(parents=True)
    with pytest.raises(StateError, match="empty the directory and restore again"):
        Service(settings(tmp_path / "state")).start()


def test_a_backup_is_not_in_the_state_itself(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as service:
        with pytest.raises(Conflict, match="where only the service writes"):
            service.backup(tmp_path / "state" / "copy")
        assert not (tmp_path / "state" / "copy").exists()
