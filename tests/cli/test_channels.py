"""`broker channels`, as a user types it, against a real service."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.cli.serving import Answer, Request, Serving, answering, book, queries
from tests.waiting import PATIENCE


def test_a_webhook_and_what_it_answers(service: Serving, tmp_path: Path) -> None:
    from standardwebhooks import Webhook

    path = queries(tmp_path, "hook: SELECT t FROM Hook//book[./title->t];\n")
    arrived = threading.Semaphore(0)

    def answer(request: Request) -> Answer:
        arrived.release()
        return (204, {}, b"") if request.path == "/ok" else (500, {}, b"no")

    with answering(answer) as (url, asked):
        output = service.done("subscribe", path, "--webhook", f"{url}/ok")
        assert "broker channels show hook.webhook --secrets" in output
        shown = json.loads(service.broker("channels", "show", "hook.webhook", "--secrets").stdout)
        secret = shown["settings"]["secret"]
        assert secret.startswith("whsec_")
        assert secret not in service.done("channels", "show", "hook.webhook")
        assert "hook.webhook: " in service.done("channels", "test", "hook.webhook")
        assert arrived.acquire(timeout=PATIENCE)
        service.done("publish", "Hook", "-", stdin=book("x"))
        assert arrived.acquire(timeout=PATIENCE)
        told = Webhook(secret).verify(asked[-1].body, asked[-1].headers)
        assert told["data"]["values"] == {"t": ["x"]}

        service.done("channels", "add", "broken", "--webhook", f"{url}/no", "--header", "X-Who: me")
        result = service.broker("channels", "test", "broken")
        assert result.returncode == 1
        assert "500" in result.stderr
        assert asked[-1].headers["x-who"] == "me"
    listed = service.done("channels", "list")
    assert "hook.webhook" in listed
    assert "(all)" in listed
    assert service.done("channels", "pause", "broken") == "broken: paused\n"
    assert service.done("channels", "resume", "broken") == "broken: goes on\n"
    told = service.done("channels", "reset", "broken", "--after", "0")
    assert told == "broken: begins again behind match 0\n"
    assert service.done("channels", "remove", "broken") == "broken: removed\n"
    assert service.broker("channels", "show", "broken").returncode == 1


def test_a_file_channel(service: Serving, tmp_path: Path) -> None:
    service.done("subscribe", queries(tmp_path, "filed: SELECT t FROM Filed//book[./title->t];\n"))
    args = ("--file", "out.xml", "--format", "xml", "--rotate", "1 MB", "--keep", "2")
    output = service.done(
        "channels", "add", "filed-c", "--subscription", "filed", *args, cwd=tmp_path
    )
    assert f"filed-c: file {tmp_path / 'out.xml'}, for filed" in output
    settings = json.loads(service.done("channels", "show", "filed-c"))["settings"]
    assert settings == {
        "path": str(tmp_path / "out.xml"),
        "format": "xml",
        "rotate_bytes": 1_000_000,
        "keep": 2,
    }
    (line,) = service.broker("channels", "list", "--format", "jsonl").stdout.splitlines()[-1:]
    assert json.loads(line)["name"]


def test_a_channel_is_replaced_only_if_that_is_said(service: Serving, tmp_path: Path) -> None:
    def add(*args: object) -> tuple[int, str]:
        result = service.broker("channels", "add", "mine", *args, cwd=tmp_path)
        return result.returncode, result.stderr

    hook, file = "https://a.example/hook", tmp_path / "out.jsonl"
    assert add("--webhook", hook)[1].startswith(f"mine: webhook {hook}, for all subscriptions\n")
    secret = json.loads(service.done("channels", "show", "mine", "--secrets"))["settings"]["secret"]
    # Its settings may be given anew: it leads where it led.
    code, output = add("--webhook", hook, "--header", "X-Who: me", "--unordered")
    assert (code, output.splitlines()[0]) == (
        0,
        f"mine: webhook {hook}, for all subscriptions, as it was",
    )
    for args in (
        ("--file", "out.jsonl"),
        ("--webhook", "https://b.example/hook"),
        ("--webhook", hook, "--subscription", "filed"),
    ):
        service.done("subscribe", queries(tmp_path, "filed: SELECT t FROM Filed//b[./title->t];\n"))
        assert add(*args) == (
            1,
            "broker: the channel 'mine' is there, and is for something else: "
            f"webhook {hook}, for all subscriptions; to have it replaced say so (replace, "
            "--replace)\n",
        )
    left = json.loads(service.done("channels", "show", "mine", "--secrets"))
    assert (left["kind"], left["settings"]["secret"]) == ("webhook", secret)
    assert add("--webhook", "https://b.example/hook", "--replace")[1].splitlines()[0] == (
        "mine: webhook https://b.example/hook, for all subscriptions; "
        f"it replaces webhook {hook}, for all subscriptions"
    )
    assert add("--file", "out.jsonl", "--replace") == (
        0,
        f"mine: file {file}, for all subscriptions; "
        "it replaces webhook https://b.example/hook, for all subscriptions\n"
        "  what that had still to deliver is not delivered\n",
    )
    answer = service.api.put("/v1/channels/mine", json={"kind": "pull"})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:xscl-broker:conflict")
    made = service.api.put("/v1/channels/mine", json={"kind": "pull", "replace": True}).json()
    assert (made["kind"], made["was"]["kind"]) == ("pull", "file")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "give one of --webhook, --file, --mail and --pull"),
        (("--pull", "--file", "x"), "give one of"),
        (("--pull", "--header", "a:b"), "--header goes with --webhook, not with --pull"),
        (("--file", "x", "--every", "1 day"), "--every goes with --mail, not with --file"),
        (("--mail", "a@b.example", "--rotate", "1 MB"), "--rotate goes with --file"),
        (("--file", "x", "--rotate", "large"), "'large' is no size"),
        (("--webhook", "https://a.example", "--header", "a"), "write NAME:VALUE"),
        (("--webhook", "ftp://a.example"), "url: "),
        (("--file", "{state}/broker.duckdb"), "in the state directory, where only the service"),
        (("--file", "{state}/../state/new.jsonl"), "in the state directory"),
    ],
)
def test_channels_that_are_not_made(args: tuple[str, ...], said: str, service: Serving) -> None:
    given = [arg.replace("{state}", str(service.state)) for arg in args]
    result = service.broker("channels", "add", "never", *given)
    assert result.returncode == 2
    assert said in result.stderr
    assert service.broker("channels", "show", "never").returncode == 1


def test_a_name_of_other_characters(service: Serving) -> None:
    result = service.broker("channels", "add", "my desk", "--pull")
    assert result.returncode == 2
    assert result.stderr.startswith("broker: name: 'my desk': a name begins with a letter or digit")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_names_that_no_path_can_hold(name: str, service: Serving) -> None:
    result = service.broker("channels", "add", name, "--pull")
    assert (result.returncode, result.stderr) == (
        2,
        f"broker: {name!r} cannot be a name: names hold more than dots, and no /\n",
    )
