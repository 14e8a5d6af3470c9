"""A state of the previous version, with work in flight, under `broker serve`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb

from tests.crash.plain import Plain
from tests.crash.points import Aim

STATES = Path(__file__).parent / "states"
LATE = {"lateness": "1000 days", "idle": "300 days"}


def previous(state: Path) -> None:
    """A state as the previous program left it: one match is not delivered, and the last document of
    the spool not applied. It had no mailbox."""
    state.mkdir(parents=True)
    with duckdb.connect(str(state / "broker.duckdb")) as db:
        db.execute((STATES / "engine_2.sql").read_text(encoding="utf-8"))
    with closing(sqlite3.connect(state / "spool.sqlite")) as db:
        db.executescript((STATES / "spool_2.sql").read_text(encoding="utf-8"))


def documents(plain: Plain) -> list[str]:
    """Of each match in the log, its documents."""
    return [" ".join(d["id"] for d in match["documents"]) for match in plain.served.matches()]


def test_a_state_of_the_previous_version_goes_on(tmp_path: Path) -> None:
    with Plain(tmp_path / "service", time=LATE) as plain:
        previous(plain.state)
        plain.served.start()
        (known,) = plain.served.get("/v1/subscriptions")
        assert (known["id"], known["status"], known["first_doc"]) == ("pair", "active", 1)
        plain.drained()
        assert documents(plain) == ["p1 s1", "p2 s2"]
        answer = plain.served.http.post(
            "/v1/streams/S/documents",
            content="<item><title>part 1</title></item>",
            headers={
                "Content-Type": "application/xml",
                "Document-Id": "new",
                "Document-Timestamp": "2026-10-05T14:00:00Z",
            },
        )
        assert answer.status_code == 202
        assert answer.json()["first"] == 5
        plain.drained()
        assert sorted(documents(plain)) == ["p1 new", "p1 s1", "p2 s2", "s1 new"]
        assert len(plain.served.get("/v1/feeds")) == 2
        assert plain.served.stop() == 0
        # And what it is now, it stays.
        plain.served.start()
        assert len(documents(plain)) == 4


def test_killed_while_it_is_brought_to_this_version(tmp_path: Path) -> None:
    """Each time a file is changed; the next start goes on from there."""
    with Plain(tmp_path / "service", time=LATE) as plain:
        previous(plain.state)
        for point in ("engine committing", "engine committed", "spool committing", "taking"):
            if plain.served.start(Aim(point)):
                assert plain.served.exited(30), f"it does not come to {point}"
            assert plain.served.struck()
        plain.served.start()
        plain.drained()
        assert documents(plain) == ["p1 s1", "p2 s2"]
