"""What the service says when something is wrong, as docs/service.md explains it."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.serving import answering, queries, run, serving
from tests.docs.markdown import ROOT, code, tables
from tests.ports import reserved_port
from tests.waiting import PATIENCE

PAGE = ROOT / "docs" / "service.md"
QUERY = "q: SELECT t FROM S//book[./title->t];\n"
BOOK = '{"xml": "<book><title>a</title></book>"}\n'


def none_there(folder: Path) -> str:
    return run("list", "--state", folder / "none").stderr


def none_answers(folder: Path) -> str:
    with serving(folder / "state") as service:
        service.signal(signal.SIGKILL)
    output = run("list", "--state", folder / "state").stderr
    with serving(folder / "state") as service:  # the way out
        service.done("list")
    return output


def wrong_token(folder: Path) -> str:
    with serving(folder / "state") as service:
        return run("list", "--state", service.state, token="other").stderr


def token_of_the_settings(folder: Path) -> str:
    with serving(folder / "state", server__token="mine") as service:
        output = service.broker("list").stderr
        assert run("list", "--state", service.state, token="mine").returncode == 0
        return output


def port_in_use(folder: Path) -> str:
    with serving(folder / "state") as service:
        url = json.loads((service.state / "service.json").read_text())["url"]
        port = url.rpartition(":")[2]
        return run("serve", "--state", folder / "other", "--port", port).stderr


def state_in_use(folder: Path) -> str:
    with serving(folder / "state") as service:
        output = run("serve", "--state", service.state, "--port", str(reserved_port())).stderr
        service.done("status")
        return output


def run_on_a_service(folder: Path) -> str:
    other = queries(folder, "other: SELECT t FROM S//book[./title->t];", "other.xscl")
    with serving(folder / "state") as service:
        service.done("subscribe", queries(folder, "pair: SELECT t FROM S//post[./title->t];"))
        assert service.signal(signal.SIGTERM) == 0
    output = run("run", other, "--documents", other, "--state", folder / "state").stderr
    with serving(folder / "state") as service:
        assert "pair" in service.done("list")
    return output


def newer_version(folder: Path) -> str:
    import duckdb

    with serving(folder / "state") as service:
        assert service.signal(signal.SIGTERM) == 0
    with duckdb.connect(folder / "state" / "broker.duckdb") as db:
        db.execute("UPDATE meta SET value = '1000' WHERE key = 'version'")
    return run("serve", "--state", folder / "state", "--port", "0").stderr


def damaged_state(folder: Path) -> str:
    with serving(folder / "state") as service:
        service.done("backup", folder / "backup")
        assert service.signal(signal.SIGTERM) == 0
    file = folder / "state" / "broker.duckdb"
    file.write_bytes(b"\0" * 4096 + file.read_bytes()[4096:])
    output = run("serve", "--state", folder / "state", "--port", "0").stderr
    shutil.move(folder / "state", folder / "damaged")  # the way out
    assert run("restore", folder / "backup", "--state", folder / "state").returncode == 0
    with serving(folder / "state") as service:
        service.done("list")
    return output


def damaged_spool(folder: Path) -> str:
    with serving(folder / "state") as service:
        assert service.signal(signal.SIGTERM) == 0
    (folder / "state" / "spool.sqlite").write_bytes(b"\xff" * 8192)
    output = run("serve", "--state", folder / "state", "--port", "0").stderr
    _without(folder / "state", "spool.sqlite")
    return output


def damaged_mailbox(folder: Path) -> str:
    return _damaged(folder, "mailbox.sqlite")


def _used(state: Path, title: str) -> None:
    """A service over a state has a subscription, a document and a match, and is stopped."""
    state.with_name("q.xscl").write_text(QUERY)
    with serving(state) as service:
        service.done("subscribe", state.with_name("q.xscl"))
        service.done("publish", "S", "-", stdin=BOOK.replace(">a<", f">{title}<"))
        service.matched("q", 1)
        assert service.signal(signal.SIGTERM) == 0


def damaged_match(folder: Path) -> str:
    """Read on behind a match that cannot be read, as the page says."""
    state = folder / "state"
    _used(state, "a")
    with closing(sqlite3.connect(state / "mailbox.sqlite")) as db, db:
        db.execute("UPDATE match SET docs = x'00'")
    with serving(state) as service:
        output = service.broker("matches", "q", "--after", "0").stderr
        service.done("publish", "S", "-", stdin=BOOK.replace(">a<", ">b<"))
        service.until("/v1/status", lambda told: told["deliveries"]["last"] == 2)
        assert ">b<" in service.done("matches", "q", "--after", "1", "--format", "xml")
    return output


def missing_engine(folder: Path) -> str:
    state = folder / "state"
    _used(state, "Tide")
    for path in state.glob("broker.duckdb*"):
        path.unlink()
    output = run("serve", "--state", state, "--port", "0").stderr
    _without(state, "proof")
    return output


def spool_of_another(folder: Path) -> str:
    for name, title in (("state", "Tide"), ("other", "Kelp")):
        _used(folder / name, title)
    own = folder / "state" / "spool.sqlite"
    kept = own.read_bytes()
    own.write_bytes((folder / "other" / "spool.sqlite").read_bytes())
    output = run("serve", "--state", folder / "state", "--port", "0").stderr
    own.write_bytes(kept)
    with serving(folder / "state") as service:
        assert len(service.matched("q", 1)) == 1
    return output


def token_with_less(folder: Path) -> str:
    with serving(folder / "state") as service:
        made = service.broker("tokens", "add", "desk", "--publish", "S")
        (folder / "desk.token").write_text(made.stdout)
        return service.broker("list", "--token-file", folder / "desk.token").stderr


def damaged_tokens(folder: Path) -> str:
    return _damaged(folder, "access.sqlite")


def _damaged(folder: Path, name: str) -> str:
    """What a service says that finds no database in a file of its state."""
    with serving(folder / "state") as service:
        assert service.signal(signal.SIGTERM) == 0
    file = folder / "state" / name
    file.write_bytes(b"\xff" * 8192)
    output = run("serve", "--state", folder / "state", "--port", "0").stderr
    _without(folder / "state", name)
    return output


def _without(state: Path, name: str) -> None:
    """The way out where there is no backup: what is found from then on is found."""
    for path in state.glob(f"{name}*"):
        path.unlink()
    state.with_name("q.xscl").write_text(QUERY)
    with serving(state) as service:
        service.done("subscribe", state.with_name("q.xscl"))
        service.done("publish", "S", "-", stdin=BOOK)
        service.matched("q", 1)


def disk_full(folder: Path) -> str:
    with serving(folder / "state", intake__min_free="1000 TB") as service:
        result = service.broker("publish", "S", "-", "--patience", "0 s", stdin=BOOK)
        assert result.returncode == 1
        return result.stderr


def stopping(folder: Path) -> str:
    """A receiver that takes its time holds the end up for long enough to ask."""
    folder.joinpath("q.xscl").write_text(QUERY)
    asked, answer = threading.Event(), threading.Event()

    def slow(_: object) -> tuple[int, dict[str, str], bytes]:
        asked.set()
        answer.wait(PATIENCE)
        return 204, {}, b""

    with answering(slow) as (url, _), serving(folder / "state") as service:
        service.done("subscribe", folder / "q.xscl", "--webhook", url)
        service.done("publish", "S", "-", stdin=BOOK)
        assert asked.wait(PATIENCE)
        service.process.send_signal(signal.SIGTERM)
        try:
            service.until("/v1/status", lambda told: told["state"] == "draining")
            return service.broker("publish", "S", "-", "--patience", "0 s", stdin=BOOK).stderr
        finally:
            answer.set()
            assert service.process.wait(PATIENCE) == 0


def backup_into_what_is_there(folder: Path) -> str:
    (folder / "full").mkdir()
    (folder / "full" / "file").touch()
    with serving(folder / "state") as service:
        return service.broker("backup", folder / "full").stderr


def damaged_backup(folder: Path) -> str:
    with serving(folder / "state") as service:
        service.done("backup", folder / "backup")
    with sqlite3.connect(folder / "backup" / "spool.sqlite") as db:
        db.execute("CREATE TABLE other (a)")
    db.close()
    return run("restore", folder / "backup", "--state", folder / "new").stderr


def half_restored(folder: Path) -> str:
    (folder / "state" / ".restoring").mkdir(parents=True)
    return run("serve", "--state", folder / "state").stderr


SITUATIONS: dict[str, Callable[[Path], str]] = {
    "no service runs on": none_there,
    "no service answers at": none_answers,
    "does not take the token": wrong_token,
    "is not there: the service has a token of its settings": token_of_the_settings,
    "lacks the scope": token_with_less,
    "access.sqlite: file is not a database": damaged_tokens,
    "cannot listen on": port_in_use,
    "another process uses this state": state_in_use,
    "the state of a service": run_on_a_service,
    "this state has version": newer_version,
    "missing, with all subscriptions": missing_engine,
    "not the file that this state had": spool_of_another,
    "the state is damaged": damaged_state,
    "spool.sqlite: file is not a database": damaged_spool,
    "mailbox.sqlite: file is not a database": damaged_mailbox,
    "of the mailbox is damaged": damaged_match,
    "free on the disk": disk_full,
    "the service is stopping": stopping,
    "not empty; a backup needs a directory of its own": backup_into_what_is_there,
    "a backup was being restored here": half_restored,
    "the backup is damaged": damaged_backup,
}


def test_the_page_explains_the_messages() -> None:
    (table,) = tables(PAGE, "message", "what happened, and what to do")
    assert [code(row[0]) for row in table.rows] == list(SITUATIONS)


@pytest.mark.parametrize("message", SITUATIONS)
def test_a_message(message: str, tmp_path: Path) -> None:
    said = SITUATIONS[message](tmp_path)
    assert message in said
    assert "Traceback" not in said
