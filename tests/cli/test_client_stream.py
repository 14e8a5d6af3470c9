"""`broker publish`, `matches` and `tail` with a real service."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.serving import (
    Answer,
    Request,
    Serving,
    answering,
    book,
    environment,
    queries,
    run,
    serving,
)
from tests.command import Command
from tests.ports import reserved_port
from tests.waiting import PATIENCE

# -- publishing ------------------------------------------------------------------------------


def test_files_of_all_kinds(service: Serving, tmp_path: Path) -> None:
    service.done("subscribe", queries(tmp_path, "kinds: SELECT t FROM Kinds//book[./title->t];\n"))
    (tmp_path / "ü.xml").write_bytes(
        '<?xml version="1.0" encoding="iso-8859-1"?><book><title>é</title></book>'.encode("latin-1")
    )
    (tmp_path / "many.jsonl").write_text(f"\ufeff{book('b')}\n\n  {book('c')}  \n")
    args = ("Kinds", tmp_path / "ü.xml", tmp_path / "many.jsonl", "-", "--key", "kinds")
    said = service.done("publish", *args, stdin="\n<book><title>d</title></book>")
    assert "4 documents accepted" in said
    found = service.matched("kinds", 4)
    assert {m["documents"][0]["id"]: m["values"]["t"] for m in found} == {
        "kinds/ü.xml": ["é"],
        "kinds/many.jsonl:1": ["b"],
        "kinds/many.jsonl:3": ["c"],
        "kinds/standard input": ["d"],
    }
    # Under the same key nothing is added: the next one found is that of another document.
    again = service.done("publish", *args, stdin="<book><title>e</title></book>")
    assert again.endswith("4 documents accepted, known already\n")
    (tmp_path / "more.jsonl").write_text(
        "\n".join([book("b"), '{"xml": "<a/>", "id": "kinds/ü.xml"}'])
    )
    more = service.done("publish", "Kinds", tmp_path / "more.jsonl")
    assert more.endswith("2 documents accepted, 1 of them known already\n")
    assert [match["values"] for match in service.matched("kinds", 5)[4:]] == [{"t": ["b"]}]


def test_a_bad_line_stops_it_and_what_came_before_is_accepted(
    service: Serving, tmp_path: Path
) -> None:
    service.done("subscribe", queries(tmp_path, "bad: SELECT t FROM Bad//book[./title->t];\n"))
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join([book("a"), "", book("b"), '{"xml": 5}', book("d")]))
    done = service.broker("publish", "Bad", path)
    assert done.returncode == 2
    first, second = done.stderr.strip().splitlines()[-2:]
    assert first.startswith(f"broker: {path}:4: ")
    assert second == "2 documents accepted; to go on behind them: --skip 2"
    path.write_text("\n".join([book("a"), "", book("b"), book("c"), book("d")]))
    assert "2 documents accepted, 2 left out" in service.done("publish", "Bad", path, "--skip", 2)
    assert [m["values"] for m in service.matched("bad", 4)] == [{"t": [t]} for t in "abcd"]
    done = service.broker("publish", "no stream", path)
    assert done.returncode == 2
    assert done.stderr.startswith("broker: 'no stream' cannot be the name of a stream\n")


def problem(code: str, status: int, **headers: str) -> Answer:
    body = json.dumps({"type": f"urn:xscl-broker:{code}", "title": code, "detail": f"it is {code}"})
    return status, {"Content-Type": "application/problem+json", **headers}, body.encode()


def test_publishing_waits_where_it_is_told_to_and_doubles_nothing(tmp_path: Path) -> None:
    """What a service says only in need, said by one that plays it: full, stopping, gone."""
    taken: list[str] = []
    trouble = iter(["full", "draining", "cut", "cut after", "large"])

    def answer(request: Request) -> Answer | None:
        ids = [json.loads(line)["id"] for line in request.body.split(b"\n")]
        match next(trouble, None):
            case "full":
                return problem("backlog-full", 429, **{"Retry-After": "1"})
            case "draining":
                return problem("draining", 503, **{"Retry-After": "1"})
            case "large":
                return problem("too-large", 413)
            case "cut":
                return None
            case "cut after":
                taken.extend(ids)
                return None
        taken.extend(ids)
        return 202, {"Content-Type": "application/json"}, b'{"known": 0}'

    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(map(book, "abcde")))
    with answering(answer) as (url, asked):
        done = run("publish", "S", path, "--url", url, token="x")
    assert done.returncode == 0, done.stderr
    assert "5 documents accepted" in done.stderr
    assert "it is backlog-full; trying again in 1 s" in done.stderr
    waits = [line.partition(": ")[2] for line in done.stderr.splitlines() if "trying" in line]
    assert len(waits) == len(set(waits)), "each reason once"
    assert "the service is stopping" in done.stderr
    assert len(set(taken)) == 5  # sent twice, but under the same ids
    assert [len(request.body.split(b"\n")) for request in asked] == [5, 5, 5, 5, 5, 2, 3]
    assert asked[0].headers["authorization"] == "Bearer x"


def test_publishing_says_how_far_it_got(tmp_path: Path) -> None:
    count = iter([0])

    def answer(_: Request) -> Answer:
        if next(count, None) is None:
            return problem("disk-full", 507)
        return 202, {}, b'{"known": 0}'

    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(book(str(n)) for n in range(600)))
    with answering(answer) as (url, _):
        done = run("publish", "S", path, "--skip", 50, "--url", url, "--patience", "0 s", token="x")
    assert done.returncode == 1
    assert (
        "it is disk-full\n500 documents accepted; to go on behind them: --skip 550" in done.stderr
    )


# -- matches ---------------------------------------------------------------------------------


@contextmanager
def tailing(service: Serving, *args: str) -> Iterator[tuple[Command, queue.Queue[str]]]:
    """`broker tail`, once it follows, and its lines."""
    lines: queue.Queue[str] = queue.Queue()
    with Command(
        ["tail", "--format", "jsonl", "--patience", "1 h", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(state=str(service.state)),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        reader = threading.Thread(
            target=lambda: [*map(lines.put, process.stdout or ())], daemon=True
        )
        reader.start()
        try:
            assert "following" in process.stderr.readline()
            yield process, lines
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            reader.join()


def test_tail_follows_and_ctrl_c_ends_it(service: Serving, tmp_path: Path) -> None:
    path = queries(tmp_path, "tail-a: SELECT t FROM Tail//book[./title->t];\n")
    service.done("subscribe", path)
    service.done("publish", "Tail", "-", stdin=book("before"))
    (before,) = service.matched("tail-a", 1)
    with tailing(service, "tail-a") as (process, lines):
        service.done("publish", "Tail", "-", stdin=book("l1\u2028\u0085l2"))
        first = json.loads(lines.get(timeout=PATIENCE))
        assert first["values"] == {"t": ["l1\u2028\u0085l2"]}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == "broker: interrupted"
    with tailing(service, "tail-a", "--after", "0") as (_, lines):
        assert json.loads(lines.get(timeout=PATIENCE))["id"] == before["id"]
        assert json.loads(lines.get(timeout=PATIENCE))["id"] == first["id"]
    done = service.broker("tail", "tail-none")
    assert done.returncode == 1
    assert "tail-none" in done.stderr


def test_tail_misses_nothing_over_a_restart(tmp_path: Path) -> None:
    port = str(reserved_port())
    state = tmp_path / "state"
    path = queries(tmp_path, "q: SELECT t FROM S//book[./title->t];\n")
    with serving(state, server__port=port) as first:
        first.done("subscribe", path)
        with tailing(first) as (process, lines):
            # Nothing was found before the service dies, so only the stream's place says where to go
            # on.
            first.signal(signal.SIGKILL)
            assert process.stderr is not None
            assert "trying again" in process.stderr.readline()
            with serving(state, server__port=port) as second:
                second.done("publish", "S", "-", stdin=book("after"))
                assert json.loads(lines.get(timeout=PATIENCE))["values"] == {"t": ["after"]}
                assert "connected again" in process.stderr.readline()
                second.done("publish", "S", "-", stdin=book("later"))
                assert json.loads(lines.get(timeout=PATIENCE))["values"] == {"t": ["later"]}


def test_matches_in_pages_and_formats(service: Serving, tmp_path: Path) -> None:
    service.done("subscribe", queries(tmp_path, "page: SELECT t FROM Page//book[./title->t];\n"))
    service.done("publish", "Page", "-", stdin="\n".join(map(book, "abc")))
    first, *rest = service.matched("page", 3)
    done = service.broker("matches", "page", "--limit", 1, "--format", "jsonl")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [first]
    assert done.stderr == f"1 match; what comes later: --after {first['n']}\n"
    done = service.broker("matches", "page", "--after", first["n"], "--format", "xml")
    assert done.stdout.splitlines() == [match["result"] for match in rest]
    assert "\n    a (Page)\n" in service.done("matches", "page")
    assert service.broker("matches", "page-none").returncode == 1


def test_a_pull_channel_keeps_the_place(service: Serving, tmp_path: Path) -> None:
    service.done("subscribe", queries(tmp_path, "pull: SELECT t FROM Pull//book[./title->t];\n"))
    service.done("channels", "add", "puller", "--pull", "--subscription", "pull")
    service.done("publish", "Pull", "-", stdin="\n".join(map(book, "ab")))
    service.matched("pull", 2)
    pull = ("matches", "--channel", "puller", "--format", "jsonl")
    seen = service.broker(*pull).stdout
    assert len(seen.splitlines()) == 2
    assert service.broker(*pull, "--ack").stdout == seen
    assert service.broker(*pull, "--ack").stdout == ""
    assert service.broker("matches", "--ack").returncode == 2
    assert service.broker("matches", "pull", "--channel", "puller").returncode == 2


def test_a_pull_channel_that_goes_with_its_last_match(service: Serving, tmp_path: Path) -> None:
    service.done("subscribe", queries(tmp_path, "last: SELECT t FROM Last//book[./title->t];\n"))
    service.done("channels", "add", "laster", "--pull", "--subscription", "last")
    service.done("publish", "Last", "-", stdin="\n".join(map(book, "ab")))
    service.matched("last", 2)
    service.done("unsubscribe", "last")
    pull = ("matches", "--channel", "laster", "--format", "jsonl", "--ack")
    done = service.broker(*pull)
    assert (done.returncode, done.stderr) == (0, "2 matches\n")
    assert len(done.stdout.splitlines()) == 2
    assert service.broker(*pull).returncode == 1
