"""`broker run` and `broker demo` as processes: input, messages, and files that remain."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.cli.polling import Polling
from tests.cli.test_queries import broker as process
from tests.feeds.data import SAMPLES, rss
from tests.feeds.odd_server import OddServer, dribble
from tests.feeds.site import Site
from tests.waiting import PATIENCE, pause, until

ALL = "all: SELECT t FROM S//item[./title->t];"
HOUR = 3_600_000_000


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "all.xscl"
    path.write_text(ALL)
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of the processes that a test starts."""
    path = tmp_path / "t"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    return path


@contextmanager
def running(*args: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", "from broker.cli import main; main()", *map(str, args)]
    with subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as started:
        try:
            yield started
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)


def wait_for_words(started: subprocess.Popen[str], words: str) -> str:
    """What the process said up to the line with these words."""
    assert started.stderr is not None
    message = ""
    for line in started.stderr:
        message += line
        if words in line:
            return message
    raise AssertionError(message)


@pytest.mark.parametrize("pipeline", ["spark", "local"])
def test_a_directory_of_both_kinds_is_read_and_what_is_odd_is_said(
    pipeline: str, tmp_path: Path, queries: Path
) -> None:
    folder = tmp_path / "a [b]"
    folder.mkdir()
    (folder / "a.xml").write_text("<item><title>one</title></item>")
    (folder / "b.jsonl").write_text(
        '{"id": "1", "xml": "<item><title>two</title></item>"}\n{"id": "2", "xml": "<item>'
    )
    done = process(
        *("run", queries, "--documents", folder, "--once", "--pipeline", pipeline),
        *("--timestamp", "//updated", "--format", "text"),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(line.strip() for line in done.stdout.splitlines() if line.endswith(" (S)")) == [
        "one (S)",
        "two (S)",
    ]
    assert "2 documents, 2 matches in" in done.stderr
    assert f"{folder}: --timestamp //updated finds no date in 1 document:" in done.stderr
    assert f"{folder / 'b.jsonl'}: its last line is torn" in done.stderr


@pytest.mark.parametrize("moment", [0.3, 2.5])
def test_ctrl_c_while_spark_starts(moment: float, temporary: Path, queries: Path) -> None:
    (temporary / "in").mkdir()
    with running("run", queries, "--documents", temporary / "in") as started:
        output = wait_for_words(started, "starting Spark")
        pause(moment)
        os.killpg(started.pid, signal.SIGINT)
        out, rest = started.communicate(timeout=PATIENCE)
    assert "Traceback" not in output + rest
    assert "Error" not in output + rest
    assert out == ""
    (temporary / "in").rmdir()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [(signal.SIGINT, 130, ["broker: interrupted"]), (signal.SIGTERM, 143, [])],
)
def test_a_signal_while_feeds_are_fetched(
    number: signal.Signals, code: int, says: list[str], temporary: Path, queries: Path
) -> None:
    drip = dribble(b"HTTP/1.1 200 OK\r\n\r\n", b" ", round(PATIENCE), 1.0)
    with (
        OddServer({"/f": drip}) as server,
        running(
            "run", queries, "--feeds", server.url("/f"), "--once", "--allow-private"
        ) as started,
    ):
        until(lambda: server.requests or started.poll() is not None)
        started.send_signal(number)
        out, output = started.communicate(timeout=PATIENCE)
    waited = [line for line in output.splitlines() if line and "fetching 1 feed, for" not in line]
    assert (started.returncode, out, waited) == (code, "", says)
    assert list(temporary.iterdir()) == []


def test_the_demo_in_one_process_finds_all_and_leaves_nothing_behind(temporary: Path) -> None:
    done = process("demo", "--pipeline", "local")
    assert done.returncode == 0, done.stderr
    assert "same-story" in done.stdout
    assert "132 items, 57 matches" in done.stderr
    assert list(temporary.iterdir()) == []


def test_a_query_that_is_too_much_is_named_and_suspended(tmp_path: Path) -> None:
    file, state, documents = tmp_path / "q.xscl", tmp_path / "state", tmp_path / "d.jsonl"
    file.write_text(
        "cube: SELECT x, y FROM S//r[.//a->x][.//a->y]; fine: SELECT k FROM S//r[./k->k];"
    )
    xml = f"<r><k>1</k>{'<a/>' * 101}</r>"
    documents.write_text(
        "".join(json.dumps({"id": f"d{n}", "timestamp": n, "xml": xml}) + "\n" for n in range(4))
    )
    line = ("run", file, "--documents", documents, "--once", "--pipeline", "local")
    done = process(*line, "--state", state)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 4
    halted = (
        "cube is suspended, and finds nothing more: set aside at 3 documents, the last time for "
        "more than 10,000 combinations; with another text it begins anew"
    )
    said = done.stderr.splitlines()
    assert halted in said
    assert "4 documents, 4 matches in" in done.stderr
    assert said[-5:-1] == [
        "kept aside: 3 documents",
        *(
            f"  S/d{n}: the query cube had no match here: more than 10,000 combinations"
            for n in range(3)
        ),
    ]
    again = process(*line, "--state", state)
    assert halted in again.stderr.splitlines()


def test_a_master_is_spark_s(queries: Path) -> None:
    options = ("--documents", queries.parent, "--master", "local[2]", "--pipeline", "local")
    done = process("run", queries, *options)
    assert done.returncode == 2
    assert "--master is for Spark, so no --pipeline local" in done.stderr


def test_standard_output_that_is_closed_is_said_before_spark_starts(queries: Path) -> None:
    main = "from broker.cli import main; main()"
    arguments = f"run {queries} --documents {queries.parent} --once"
    result = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "{main}" {arguments} >&-', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (
        1,
        "broker: standard output is closed; give --out FILE\n",
    )


# -- fetching --------------------------------------------------------------------------------


def test_once_says_that_nothing_is_due(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Site({"/f": rss("<title>a</title>")}) as site:
        with Polling(tmp_path, [site.url("/f")], HOUR, allow_private=True) as poll:
            poll.once()
            assert capsys.readouterr().err == "fetched 1 feed: 1 new item\n"
        with Polling(tmp_path, [site.url("/f")], HOUR, allow_private=True) as poll:
            poll.once()
            output = capsys.readouterr().err
            assert output.startswith("no feed is due to be fetched: the next one is at 2")
            poll.spool.set_status(site.url("/f"), "paused")
            poll.once()
            assert "all are paused or gone" in capsys.readouterr().err
        assert site.asked == ["/f"]


def test_feeds_that_are_added_or_resumed_meanwhile_are_noticed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    path = (SAMPLES / "gannet.rss").as_uri()
    with Site({"/f": rss("<title>a</title>"), "/g": rss("<title>b</title>")}) as site:

        def until_asked(*paths: str) -> None:
            until(lambda: len(site.asked) >= len(paths))
            assert site.asked == list(paths)

        here = ("--allow-private", "--state", state)
        with Polling(state, [path], HOUR) as poll:
            poll.spool.set_status(path, "paused")  # nothing is left to fetch
            poll.start()
            assert process("feeds", "add", site.url("/f"), *here).returncode == 0
            until_asked("/f")
            process("feeds", "pause", site.url("/f"), "--state", state)
            process("feeds", "add", site.url("/g"), *here)
            until_asked("/f", "/g")


@pytest.mark.parametrize(
    "feed", ["http://[a/", "ftp://a.example/", "none.rss", "http://10.0.0.1/f"]
)
def test_what_is_no_feed_is_refused_and_not_kept(feed: str, tmp_path: Path, queries: Path) -> None:
    done = process("run", queries, "--feeds", feed, "--state", tmp_path / "state", "--once")
    assert done.returncode == 1
    assert done.stderr.startswith(f"broker: {feed}: ")
    listed = process("feeds", "list", "--state", tmp_path / "state", "--format", "jsonl")
    assert listed.stdout == ""


def test_spark_names_the_empty_files_that_it_passes_over(queries: Path, tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    documents.joinpath("a.xml").write_text("<item><title>Tides</title></item>")
    for n in range(6):
        documents.joinpath(f"empty-{n}.xml").touch()
    done = process("run", queries, "--documents", documents, "--once")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    named = ", ".join(f"{documents}/empty-{n}.xml" for n in range(5))
    assert f"Spark passes over 6 empty files: {named} and 1 more" in done.stderr.splitlines()
