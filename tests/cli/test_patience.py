"""Commands that start while the service restarts wait for it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.cli.progress import Work
from broker.cli.remote.finding import Patience
from broker.cli.remote.options import find
from broker.cli.remote.publish import Document, Sender
from tests.cli.serving import Serving, book, environment, queries, run, serving
from tests.command import Command
from tests.ports import reserved_port
from tests.waiting import PATIENCE

QUERY = "q: SELECT t FROM S//book[./title->t];\n"


class Commanded:
    """A command that runs on; it is killed at the end if it still does."""

    def __init__(self, state: Path, *args: object) -> None:
        self.process = Command(
            args,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(state=str(state)),
        )
        stdin, stdout, stderr = self.process.stdin, self.process.stdout, self.process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr

    def says(self, *words: str) -> None:
        """Its next line to the user has these in it."""
        line = self.stderr.readline()
        assert all(word in line for word in words), line

    def no_more(self) -> None:
        """Its input ends."""
        self.stdin.close()
        self.process.stdin = None

    def ended(self) -> tuple[int, str, str]:
        """Exit code, and what it has still written."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.wait(), out, err

    def __enter__(self) -> Commanded:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def waiting(state: Path, *args: object) -> Iterator[Commanded]:
    """A command, once it says that it waits."""
    with Commanded(state, *args, "--patience", "1 h") as command:
        command.says(f"no service runs on {state}; waiting up to 1 h")
        yield command


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
        waiting(stopped, "publish", "S", tmp_path / "a.jsonl") as publish,
        waiting(stopped, "matches", "q", "--format", "jsonl") as matches,
        waiting(stopped, "tail", "q", "--after", "0", "--format", "jsonl") as tail,
        serving(stopped) as service,
    ):
        code, _, output = publish.ended()
        assert (code, output.splitlines()[-1]) == (0, "1 document accepted")
        code, found, _ = matches.ended()
        assert code == 0
        assert json.loads(found.splitlines()[0])["values"] == {"t": ["before"]}
        service.matched("q", 2)
        reply = [json.loads(tail.stdout.readline())["values"] for _ in range(2)]
        assert reply == [{"t": ["before"]}, {"t": ["after"]}]


def test_it_does_not_wait_longer_than_it_is_told_to(stopped: Path) -> None:
    for command in (("publish", "S", "-"), ("matches",), ("tail",)):
        result = run(*command, "--patience", "0", "--state", stopped, stdin="<a/>")
        assert (result.returncode, result.stderr) == (
            1,
            f"broker: no service runs on {stopped}: start it with broker serve --state {stopped}\n",
        )
        result = run(*command, "--patience", "0.5 s", "--state", stopped, stdin="<a/>")
        waited, failed = result.stderr.splitlines()
        assert waited == f"no service runs on {stopped}; waiting up to 500 ms for it"
        assert failed.startswith(f"broker: no service runs on {stopped}: start it")


def test_where_no_service_ever_was_none_is_waited_for(tmp_path: Path) -> None:
    for command in (("publish", "S", "-"), ("matches",), ("tail",)):
        result = run(*command, cwd=tmp_path, stdin="<a/>")
        assert result.returncode == 1
        assert result.stderr.startswith("broker: no service runs on broker-state: start it with")
    result = run("matches", "--patience", "0.5 s", cwd=tmp_path)
    assert "waiting up to 500 ms" in result.stderr


def test_one_that_was_killed_is_waited_for_and_found_at_its_new_address(
    tmp_path: Path,
) -> None:
    """The file of the one that was killed is still there, and names the old port."""
    state = tmp_path / "state"
    with serving(state) as service:
        service.done("subscribe", queries(tmp_path, QUERY))
        service.signal(signal.SIGKILL)
    port = str(reserved_port())
    with Commanded(state, "matches", "--patience", "1 h") as matches:
        matches.says("no service answers at", "waiting up to 1 h for it")
        with serving(state, server__port=port):
            code, _, output = matches.ended()
            assert (code, output[:9]) == (0, "0 matches")
    result = run("matches", "--patience", "0", "--state", state)
    assert result.returncode == 1
    assert result.stderr.startswith(f"broker: no service answers at http://127.0.0.1:{port}")


def test_tail_goes_on_at_the_new_address(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as service:
        service.done("subscribe", queries(tmp_path, QUERY))
        tail = Commanded(state, "tail", "--format", "jsonl", "--patience", "1 h")
        tail.says("following")
        assert service.signal(signal.SIGTERM) == 0
    with tail:
        tail.says("trying again")
        with serving(state) as service:
            service.done("publish", "S", "-", stdin=book("after"))
            assert json.loads(tail.stdout.readline())["values"] == {"t": ["after"]}


def test_publishing_goes_on_at_the_new_address(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as service:
        publish = Commanded(state, "publish", "S", "-", "--patience", "1 h")
        publish.stdin.write("".join(book(str(n)) + "\n" for n in range(501)))
        publish.stdin.flush()
        service.until("/v1/status", lambda told: told["intake"]["last"] == 500)
        service.signal(signal.SIGKILL)
    with publish:
        publish.no_more()
        publish.says("trying again")
        with serving(state) as service:
            code, _, output = publish.ended()
            assert (code, output.splitlines()[-1]) == (0, "501 documents accepted")
            # The answer may have been lost with the service, and then they come twice.
            service.until("/v1/status", lambda told: told["intake"]["backlog"] == 0)
            (stream,) = service.api.get("/v1/streams").json()
            assert stream["documents"] == 501


def test_what_was_refused_is_known_not_to_be_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Exception):
        pass

    said: list[str] = []

    def sleep(_: float) -> None:
        said.append(sender.interrupted())
        raise Stopped

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr("broker.cli.remote.publish.time", clock)
    with (
        serving(tmp_path / "state", intake__min_free="1000 TB") as service,
        closing(find(None, service.state, None, Patience())) as client,
        Work("document") as work,
    ):
        sender = Sender(client, "S", PATIENCE)
        with pytest.raises(Stopped):
            sender.send([Document(book("a").encode(), "books.jsonl:1", 20)], work)
    assert said == ["interrupted\n0 documents accepted"]


def test_one_of_several_that_fails_holds_up_none_of_the_others(
    service: Serving, tmp_path: Path
) -> None:
    text = "".join(f"sev-{n}: SELECT t FROM Sev//book[./title->t];\n" for n in "abc")
    service.done("subscribe", queries(tmp_path, text))
    for command, word in (("pause", "paused"), ("resume", "active"), ("unsubscribe", "unsub")):
        result = service.broker(command, "sev-a", "sev/none", "sev-b", "sev-none", "sev-c", "sev-a")
        assert result.returncode == 2
        lines = result.stderr.splitlines()
        assert [line for line in lines if word in line] == [lines[0], lines[2], lines[4]]
        assert (
            lines[1] == "sev/none: 'sev/none' cannot be a name: names hold more than dots, and no /"
        )
        assert lines[3] == "sev-none: there is no subscription 'sev-none'"
        assert lines[5] == "broker: 2 of 5 failed"
    for name in "ab":
        service.done("channels", "add", f"sev-{name}", "--pull")
    for command in ("pause", "resume", "remove"):
        result = service.broker("channels", command, "sev-a", "sev-none", "sev-b")
        assert result.returncode == 1
        assert [line.partition(":")[0] for line in result.stderr.splitlines()] == [
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
    result = service.broker("deadletters", "resend", "documents", 10**9, number)
    assert result.returncode == 1
    assert result.stderr.splitlines()[1:] == ["sent again: 1 document", "broker: 1 of 2 failed"]
