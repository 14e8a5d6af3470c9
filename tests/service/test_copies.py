"""Copies of a state that are made while it runs, and states that go on from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.service.backup import MANIFEST, restore
from broker.service.errors import Conflict, Invalid
from broker.service.results import ChannelSpec
from tests.service.data import ORDERS, Publisher, applied, found, order, serving, until


def test_a_copy_made_while_documents_flow_is_a_state_that_goes_on(tmp_path: Path) -> None:
    copy, state = tmp_path / "copy", tmp_path / "new"
    with serving(tmp_path / "state") as service:
        service.subscribe(ORDERS, channels=[ChannelSpec("pull")])
        with Publisher(service) as publisher:
            until(lambda: service.figures().spool.applied > 30)
            done = service.backup(copy)
            at_least = service.figures().spool.applied
            until(lambda: publisher.count > at_least + 30)
        applied(service, publisher.count)
        with pytest.raises(Conflict, match="not empty"):
            service.backup(copy)
        token = service.token
    assert set(done.files) == {"broker.duckdb", "mailbox.sqlite", "spool.sqlite", "token"}
    assert copy.stat().st_mode & 0o077 == 0
    restore(copy, state)
    with serving(state) as restored:
        assert restored.token == token
        last = restored.figures().spool.last
        assert last >= 30
        applied(restored, last)
        assert found(restored, "orders") == [[f"o{n}"] for n in range(1, last + 1)]
        assert len(restored.take("orders.pull", 10_000)) == last
        applied(restored, restored.publish("S", [order(1, id="next")]).last)
        assert found(restored, "orders")[-1] == ["next"]


def test_who_reads_on_behind_a_number_misses_nothing_after_a_restore(tmp_path: Path) -> None:
    copy, state = tmp_path / "copy", tmp_path / "new"
    with serving(tmp_path / "state") as service:
        service.subscribe(ORDERS)
        applied(service, service.publish("S", [order(1, id="before")]).last)
        service.backup(copy)
        applied(service, service.publish("S", [order(1, id=f"lost{n}") for n in range(5)]).last)
        last = service.mailbox.matches("orders", 0, 100)[-1].n
    restore(copy, state)
    with serving(state) as restored:
        applied(restored, restored.publish("S", [order(1, id="after")]).last)
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
