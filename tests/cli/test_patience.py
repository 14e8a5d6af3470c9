"""Commands that are given while the service restarts wait for it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.serving import COMMAND, Serving, book, environment, queries, run, serving

QUERY = "q: SELECT t FROM S//book[./title->t];\n"


@contextmanager
def started(state: Path, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A command, once it says that it waits."""
    with subprocess.Popen(
        [*COMMAND, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(state=str(state)),
    ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            assert f"no service runs on {state}; waiting up to " in said
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The state of a service that has found a match and stopped."""
    state = tmp_path / "state"
    with serving(state) as service:
        service.done("subscribe", queries(tmp_path, QUERY))
        service.done("publish", "S", "-", stdin=book("before"))
        service.matched("q", 1)
        assert service.signal(signal.SIGTERM) == 0
    assert not (state / "service.json").exists()
    return state


def test_publish_matches_and_tail_wait_for_a_service_that_restarts(
    stopped: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(book("after"))
    with (
        started(stopped, "publish", "S", tmp_path / "a.jsonl") as publish,
        started(stopped, "matches", "q", "--format", "jsonl") as matches,
        started(stopped, "tail", "q", "--after", "0", "--format", "jsonl") as tail,
        serving(stopped) as service,
    ):
        said = publish.communicate(timeout=60)[1]
        assert (publish.returncode, said.splitlines()[-1]) == (0, "1 document accepted")
        found, _ = matches.communicate(timeout=60)
        assert matches.returncode == 0
        assert json.loads(found.splitlines()[0])["values"] == {"t": ["before"]}
        service.matched("q", 2)
        assert tail.stdout is not None
        told = [json.loads(tail.stdout.readline())["values"] for _ in range(2)]
        assert told == [{"t": ["before"]}, {"t": ["after"]}]


def test_it_does_not_wait_longer_than_it_is_told_to(stopped: Path) -> None:
    for command in (("publish", "S", "-"), ("matches",), ("tail",)):
        done = run(*command, "--patience", "0", "--state", stopped, stdin="<a/>")
        assert (done.returncode, done.stderr) == (
            1,
            f"broker: no service runs on {stopped}: start it with broker serve --state {stopped}\n",
        )
        done = run(*command, "--patience", "0.5 s", "--state", stopped, stdin="<a/>")
        waited, failed = done.stderr.splitlines()
        assert waited == f"no service runs on {stopped}; waiting up to 500 ms for it"
        assert failed.startswith(f"broker: no service runs on {stopped}: start it")


def test_where_no_service_ever_was_none_is_waited_for(tmp_path: Path) -> None:
    for command in (("publish", "S", "-"), ("matches",), ("tail",)):
        done = run(*command, cwd=tmp_path, stdin="<a/>")
        assert done.returncode == 1
        assert done.stderr.startswith("broker: no service runs on broker-state: start it with")
    done = run("matches", "--patience", "0.5 s", cwd=tmp_path)
    assert "waiting up to 500 ms" in done.stderr


def test_one_that_was_killed_is_waited_for_and_found_at_its_new_address(
    tmp_path: Path,
) -> None:
    """The file of the one that was killed is still there, and names the old port."""
    state = tmp_path / "state"
    with serving(state) as service:
        service.done("subscribe", queries(tmp_path, QUERY))
        service.signal(signal.SIGKILL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with subprocess.Popen(
        [*COMMAND, "matches"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(state=str(state)),
    ) as matches:
        assert matches.stderr is not None
        said = matches.stderr.readline()
        assert "no service answers at" in said
        assert "waiting up to 30 s for it" in said
        with serving(state, server__port=port):
            assert matches.wait(60) == 0
            assert matches.stderr.read().startswith("0 matches")
    done = run("matches", "--patience", "0", "--state", state)
    assert done.returncode == 1
    assert done.stderr.startswith(f"broker: no service answers at http://127.0.0.1:{port}")


def test_tail_goes_on_at_the_new_address(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as service:
        service.done("subscribe", queries(tmp_path, QUERY))
        tail = subprocess.Popen(
            [*COMMAND, "tail", "--format", "jsonl"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(state=str(state)),
        )
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert "following" in tail.stderr.readline()
        assert service.signal(signal.SIGTERM) == 0
    try:
        assert "trying again" in tail.stderr.readline()
        with serving(state) as service:
            service.done("publish", "S", "-", stdin=book("after"))
            assert json.loads(tail.stdout.readline())["values"] == {"t": ["after"]}
    finally:
        tail.kill()
        tail.communicate()


def test_publishing_goes_on_at_the_new_address(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as service:
        publish = subprocess.Popen(
            [*COMMAND, "publish", "S", "-"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(state=str(state)),
        )
        assert publish.stdin is not None
        assert publish.stderr is not None
        publish.stdin.write("".join(book(str(n)) + "\n" for n in range(501)))
        publish.stdin.flush()
        service.until("/v1/status", lambda told: told["intake"]["last"] == 500)
        service.signal(signal.SIGKILL)
    publish.stdin.close()
    assert "trying again" in publish.stderr.readline()
    with serving(state) as service:
        assert publish.wait(60) == 0
        assert publish.stderr.read().splitlines()[-1] == "501 documents accepted"
        assert service.api.get("/v1/status").json()["intake"]["last"] == 501
    publish.stderr.close()


def test_one_of_several_that_fails_holds_up_none_of_the_others(
    service: Serving, tmp_path: Path
) -> None:
    text = "".join(f"sev-{n}: SELECT t FROM Sev//book[./title->t];\n" for n in "abc")
    service.done("subscribe", queries(tmp_path, text))
    for command, word in (("pause", "paused"), ("resume", "active"), ("unsubscribe", "unsub")):
        done = service.broker(command, "sev-a", "sev/none", "sev-b", "sev-none", "sev-c", "sev-a")
        assert done.returncode == 2
        lines = done.stderr.splitlines()
        assert [line for line in lines if word in line] == [lines[0], lines[2], lines[4]]
        assert (
            lines[1] == "sev/none: 'sev/none' cannot be a name: names hold more than dots, and no /"
        )
        assert lines[3] == "sev-none: there is no subscription 'sev-none'"
        assert lines[5] == "broker: 2 of 5 failed"
    for name in "ab":
        service.done("channels", "add", f"sev-{name}", "--pull")
    for command in ("pause", "resume", "remove"):
        done = service.broker("channels", command, "sev-a", "sev-none", "sev-b")
        assert done.returncode == 1
        assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
            "sev-a",
            "sev-none",
            "sev-b",
            "broker",
        ]
    service.done("publish", "Sev", "-", stdin='{"xml": "<book>", "id": "sev"}')
    letters = service.until(
        "/v1/dead-letters", lambda found: any(each["id"] == "sev" for each in found)
    )
    (number,) = [each["number"] for each in letters if each["id"] == "sev"]
    done = service.broker("deadletters", "resend", "documents", 10**9, number)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == ["sent again: 1 document", "broker: 1 of 2 failed"]
