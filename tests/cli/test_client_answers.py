"""The messages of commands if the address they are given is not that of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.serving import answering, queries, run


def test_what_is_no_broker() -> None:
    with answering(lambda _: (200, {}, b"<html/>")) as (url, _):
        done = run("status", "--url", url, token="x")
        assert done.returncode == 1
        assert "something that is no JSON" in done.stderr
    with answering(lambda _: (502, {}, b"oops")) as (url, _):
        done = run("status", "--url", url, token="x")
        assert (done.returncode, done.stderr) == (
            1,
            f"broker: {url} answers with status 502, not as a broker does\n",
        )


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("list",),
        ("matches",),
        ("tail",),
        ("events",),
        ("publish", "S", "{folder}/q.xscl"),
        ("subscribe", "{folder}/q.xscl"),
        ("unsubscribe", "x"),
        ("pause", "x"),
        ("channels", "list"),
        ("channels", "add", "x", "--pull"),
        ("channels", "reset", "x", "--after", "0"),
        ("channels", "remove", "x"),
        ("deadletters", "list"),
        ("deadletters", "resend", "deliveries", "--all"),
        ("deadletters", "drop", "documents", "--all"),
        ("backup", "{folder}/copy"),
    ],
    ids=" ".join,
)
def test_answers_of_something_else_are_told_from_a_brokers(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    queries(tmp_path, "q: SELECT t FROM S//book[./title->t];\n")
    args = [arg.replace("{folder}", str(tmp_path)) for arg in command]
    bodies = [b"[1]", b"<html/>"]
    with answering(lambda _: (200, {}, bodies[-1])) as (url, _):
        while bodies:
            done = run(*args, "--url", url, token="x")
            assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
            assert "not as a broker does" in done.stderr
            bodies.pop()


def test_an_answer_that_lacks_something() -> None:
    with answering(lambda _: (200, {}, b"{}")) as (url, _):
        done = run("status", "--url", url, token="x")
    assert done.returncode == 1
    assert done.stderr.endswith(
        'one of another version: "uptime_seconds" is missing in its answer\n'
    )


def test_lines_of_which_one_is_broken() -> None:
    lines = b'{"id": "a"}\n{"id": \n'
    with answering(lambda _: (200, {"Content-Type": "application/x-ndjson"}, lines)) as (url, _):
        done = run("list", "--format", "csv", "--url", url, token="x")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "something that is no JSON, not as a broker does: look at the address\n"
    )


def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    done = run("status", "--url", "http://192.0.2.1:1", token="x")
    assert done.returncode == 2
    assert done.stderr.startswith("broker: the proxy that the environment names")
    assert "add 192.0.2.1 to NO_PROXY" in done.stderr
