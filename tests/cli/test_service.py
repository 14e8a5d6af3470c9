"""The service behaves as docs/service.md describes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from broker.service.api.problems import KINDS
from broker.settings.schema import Settings
from broker.settings.sources import fields, leaves
from tests.cli.serving import answering, book, queries, run, serving
from tests.docs.markdown import ROOT, Fence, code, codes, section, tables
from tests.docs.test_examples import check_options
from tests.waiting import PATIENCE

PAGE = ROOT / "docs" / "service.md"
QUERY = "q: SELECT t FROM S//book[./title->t];\n"
BOOK = '{"xml": "<book><title>a</title></book>"}\n'


# -- the page --------------------------------------------------------------------------------


def test_from_nothing_to_a_webhook(tmp_path: Path) -> None:
    """The commands of the page, one after the other; only the receiver's address is another."""
    commands = [
        shlex.split(line)[1:]
        for part in section(PAGE, "From nothing to a webhook")
        if isinstance(part, Fence) and part.language == "console"
        for line in part.text.splitlines()
        for _, line in [line.split("$ ", 1)]
    ]
    assert commands[0] == ["serve"]
    for part in section(PAGE, "From nothing to a webhook"):
        if isinstance(part, Fence) and part.language == "xscl":
            named = re.match(r"-- (\w+\.xscl)\b", part.text)
            assert named
            (tmp_path / named[1]).write_text(part.text)
        elif isinstance(part, Fence) and part.language == "sh":
            subprocess.run(["sh", "-ec", part.text], cwd=tmp_path, check=True)
    output: dict[str, str] = {}
    with (
        answering(lambda _: (204, {}, b"")) as (url, asked),
        serving(tmp_path / "broker-state") as service,
    ):
        for command in commands[1:]:
            words = [word.replace("https://example.org", url) for word in command]
            result = run(*words, cwd=tmp_path)
            assert result.returncode == 0, (command, result.stderr)
            output[" ".join(command)] = result.stdout
            if command[0] == "publish":
                service.matched("pair", 1)
                service.until("/v1/channels/desk", lambda told: told["delivered"] == 1)
    secret = json.loads(output["channels show desk --secrets"])["settings"]["secret"]
    told = [Webhook(secret).verify(each.body, each.headers) for each in asked]
    (match,) = [each["data"] for each in told if each["type"] == "match"]
    assert match["values"]["title"] == ["The Tide Clerk"]
    assert 'joined because title = subject = "The Tide Clerk"' in output["matches pair"]


def test_the_posts_of_the_page(tmp_path: Path) -> None:
    (fence,) = [p for p in section(PAGE, "Publishing") if isinstance(p, Fence)]
    (tmp_path / "story.xml").write_text("<book/>")
    with serving(tmp_path / "broker-state") as service:
        told = json.loads((service.state / "service.json").read_text())
        command = fence.text.replace("http://127.0.0.1:8321", told["url"])
        result = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert json.loads(result.stdout)["accepted"] == 1
        service.until("/v1/status", lambda told: told["pipeline"]["batches"] == 1)
        shown = {code(row[0]) for row in tables(PAGE, "metric", "meaning")[0].rows}
        exposed = service.api.get("/metrics").text
        assert not [name for name in shown if not re.search(rf"(?m)^{name}(_count)?[ {{]", exposed)]
        described = service.api.get("/openapi.json").json()["paths"]
    text = PAGE.read_text()
    for path in re.findall(r"(?:GET|POST) (/[\w/-]+)", text):
        assert path in described, path
    for header in tables(PAGE, "header", "")[0].rows:
        names = {
            p["name"] for p in described["/v1/streams/{stream}/documents"]["post"]["parameters"]
        }
        assert code(header[0]).lower() in names
    statuses = {status for status, _ in KINDS.values()}
    assert {int(row[0]) for row in tables(PAGE, "response", "what to do")[0].rows} <= statuses


def test_every_setting_is_in_the_table() -> None:
    described = dict(fields(Settings))
    expected = []
    for path, value, written in leaves(Settings()):
        match written:
            case None:
                shown = ""
            case list() if written:
                shown = ", ".join(f"`{each}`" for each in written)
            case list() | dict():
                shown = f"`{'[]' if isinstance(written, list) else '{}'}`"
            case _:
                shown = f"`{str(written).lower() if isinstance(value, bool) else written}`"
        text = " ".join(str(described[path].description).split())
        expected.append((f"`{'.'.join(path)}`", shown, text))
    (table,) = tables(PAGE, "setting", "default", "what it is")
    assert list(table.rows) == expected


def test_settings_and_commands_that_the_page_names_exist() -> None:
    known = {".".join(path) for path, _ in fields(Settings)}
    sections = {path[0] for path, _ in fields(Settings)} - {"state"}
    text = PAGE.read_text()
    prose = "\n".join(line for line in text.split("\n") if not line.startswith(("|", "$")))
    for name in set(codes(prose)):
        if re.fullmatch(rf"({'|'.join(sections)})\.\w+(\.\w+)?", name):
            assert name in known or any(each.startswith(f"{name}.") for each in known), name
        words = shlex.split(name) if re.match(r"broker \w+", name) else []
        if words and words[1] in ("status", "channels", "deadletters", "publish", "tail", "config"):
            check_options(words[1:])
    for row in tables(PAGE, "channel", "what it does")[0].rows:
        check_options(shlex.split(code(row[0]))[1:])
    for target in re.findall(r"\]\((deploy/[\w.]+)\)", text):
        assert (PAGE.parent / target).exists(), target


# -- what messages mean ----------------------------------------------------------------------


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


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
        output = run("serve", "--state", service.state, "--port", _free_port()).stderr
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
    with serving(folder / "state") as service:
        assert service.signal(signal.SIGTERM) == 0
    file = folder / "state" / "mailbox.sqlite"
    file.write_bytes(b"\xff" * 8192)
    output = run("serve", "--state", folder / "state", "--port", "0").stderr
    _without(folder / "state", "mailbox.sqlite")
    return output


def _used(state: Path, title: str) -> None:
    """A service over a state has a subscription, a document and a match, and is stopped."""
    state.with_name("q.xscl").write_text(QUERY)
    with serving(state) as service:
        service.done("subscribe", state.with_name("q.xscl"))
        service.done("publish", "S", "-", stdin=BOOK.replace(">a<", f">{title}<"))
        service.matched("q", 1)
        assert service.signal(signal.SIGTERM) == 0


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
    with serving(folder / "state") as service:
        assert service.signal(signal.SIGTERM) == 0
    file = folder / "state" / "access.sqlite"
    file.write_bytes(b"\xff" * 8192)
    output = run("serve", "--state", folder / "state", "--port", "0").stderr
    _without(folder / "state", "access.sqlite")
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


# -- keeping it ------------------------------------------------------------------------------


def test_a_restored_service_goes_on_where_the_backup_was_made(tmp_path: Path) -> None:
    (tmp_path / "q.xscl").write_text(QUERY)
    with serving(tmp_path / "state") as service:
        service.done("subscribe", tmp_path / "q.xscl")
        service.done("channels", "add", "c", "--pull", "--subscription", "q")
        service.done("publish", "S", "-", stdin=BOOK)
        (before,) = service.matched("q", 1)
        output = service.done("backup", "backup", cwd=tmp_path)
        assert f"{tmp_path / 'backup'}: " in output
        token = (service.state / "token").read_text()
    result = run("restore", "backup", "--state", "new", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "start it with broker serve --state new" in result.stderr
    with serving(tmp_path / "new") as service:
        assert (service.state / "token").read_text() == token
        assert service.matched("q", 1) == [before]
        assert "q " in service.done("list")
        service.done("publish", "S", "-", stdin=BOOK)
        assert len(service.matched("q", 2)) == 2
    result = run("restore", "backup", "--state", "new", cwd=tmp_path)
    assert (result.returncode, "not empty" in result.stderr) == (1, True)
    assert run("restore", "none", "--state", "x", cwd=tmp_path).returncode == 2


def test_wrong_settings_end_it_with_2_at_once(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[server]\nprot = 1\n")
    result = run("serve", "--config", "broker.toml", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == (
        "broker: broker.toml:2: server.prot: there is no such setting; did you mean port?\n"
    )
    assert not (tmp_path / "broker-state").exists()
    result = run("serve", "--host", "0.0.0.0", cwd=tmp_path)
    assert result.returncode == 2
    assert "set a token of your own: server.token_file" in result.stderr
    assert "BROKER_SERVER__TOKEN_FILE, or serve --token-file" in result.stderr
    assert "secrets.token_urlsafe(32)" in result.stderr
    (tmp_path / "token").write_text("fifteen-letters\n")
    result = run("serve", "--host", "0.0.0.0", "--token-file", "token", cwd=tmp_path)
    assert result.returncode == 2
    assert (
        "server.token_file: other machines can reach 0.0.0.0, so a token needs 16" in result.stderr
    )
    assert not (tmp_path / "broker-state").exists()


def test_a_safe_start_matches_nothing_until_subscriptions_are_resumed(tmp_path: Path) -> None:
    state, file = tmp_path / "state", queries(tmp_path, "a: S//book[./title]; b: S//book[./title]")
    with serving(state) as service:
        service.done("subscribe", file)
        service.done("publish", "S", "-", stdin=book("one", 1))
        service.matched("a", 1)
    with serving(state, "--safe") as service:
        assert "the service was started with --safe" in service.done("list")
        service.done("publish", "S", "-", stdin=book("two", 2))
        service.until("/v1/status", lambda status: status["intake"]["backlog"] == 0)
        service.done("unsubscribe", "b")
        assert "all: 1 subscription resumed" in service.done("resume", "--prefix", "")
        service.done("publish", "S", "-", stdin=book("three", 3))
        titles = [match["documents"][0]["title"] for match in service.matched("a", 2)]
        assert titles == ["one", "three"]
