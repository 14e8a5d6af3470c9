"""The service behaves as docs/service.md describes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

from standardwebhooks import Webhook

from broker.service.api.problems import KINDS
from broker.settings.schema import Settings
from broker.settings.sources import fields, leaves
from tests.cli.serving import answering, book, queries, run, serving
from tests.docs.markdown import ROOT, Fence, code, codes, section, tables
from tests.docs.test_examples import check_options

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
