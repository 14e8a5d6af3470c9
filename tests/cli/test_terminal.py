"""Commands on a real terminal: their output, Ctrl-C, and closed or full streams."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.serving import Serving
from tests.cli.terminal import BROKER, CTRL_C, Terminal, terminal, typed
from tests.feeds.data import rss
from tests.feeds.test_archive import entry, put

ALL = "all: SELECT t FROM S//item[./title->t];"
MANY = 900
"""Items whose matches no terminal takes unless somebody reads it."""
FEW = 60


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "all.xscl"
    path.write_text(ALL)
    return path


def archive_of(path: Path, count: int) -> Path:
    for at in range(3):
        items = (entry(f"é{at}-{number}") for number in range(count // 3))
        put(path, "f", f"2021071{7 + at}T100000Z", rss(*items))
    return path


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive_of(tmp_path_factory.mktemp("few"), FEW)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive_of(tmp_path_factory.mktemp("many"), MANY)


def clean(ended: Terminal) -> None:
    """That nothing is left which a person would have to put right."""
    assert "Traceback" not in ended.text
    assert not ended.cursor_is_hidden


# -- to the end --------------------------------------------------------------------------------


@pytest.mark.spark
def test_the_demo(tmp_path: Path) -> None:
    with terminal(f"{BROKER} demo", TMPDIR=str(tmp_path)) as demo:
        ended = demo.ended()
        clean(demo)
    assert ended.code == 0, ended.text
    assert ended.lines[0].startswith("17 sample feeds, 10 subscriptions from ")
    heads = [line for line in ended.lines if line.startswith("● ")]
    assert len(heads) == 57, ended.text
    # The comment of the query is the heading, and what joins has names that say something.
    claim = "● A book is announced, and one of its authors writes about it"
    assert sum(line.startswith(claim) for line in heads) == 9
    assert all(len(line) <= 100 for line in ended.lines)
    assert any(line.startswith("│ joined because author = blogger = ") for line in ended.lines)
    for stage in ("serving 17 feeds", "fetching 17 feeds", "starting Spark"):
        assert stage in ended.raw
        assert stage not in ended.text
    (sums_up,) = [line for line in ended.lines if "book-then-author  " in line and "●" not in line]
    assert sums_up.split()[0] == "9"
    assert claim.strip("● ") in sums_up
    summary = next(n for n, line in enumerate(ended.lines) if "items, 57 matches" in line)
    assert "Next:" in ended.lines[summary:]
    assert ended.lines[-1].endswith(
        "write your own subscription: the README shows one in five minutes"
    )
    assert "waiting for" not in ended.text  # the line of progress has made way
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "columns"), [({}, 100), ({"TERM": "dumb"}, 100), ({"NO_COLOR": "1"}, 30)]
)
def test_a_replay(archive: Path, queries: Path, variables: dict[str, Any], columns: int) -> None:
    line = f"replay {archive} {queries} --format text"
    with terminal(line.split(), columns=columns, **variables) as replay:
        ended = replay.ended()
        clean(replay)
    assert ended.code == 0, ended.text
    assert ended.lines[-1] == f"{FEW:,} items, {FEW:,} matches"
    plain = sum(line.startswith("all  2021-") for line in ended.lines)
    assert plain == (FEW if "TERM" in variables else 0)
    assert sum(line.startswith("● all") for line in ended.lines) == FEW - plain
    if "TERM" in variables:
        assert "\x1b" not in ended.raw
    if "NO_COLOR" in variables:
        assert not re.search("\x1b\\[[0-9;]*3[0-7]m", ended.raw)


def test_a_match_stands_under_the_comment_of_its_query(tmp_path: Path) -> None:
    """Lines are folded where the terminal ends, and what titles hide does nothing."""
    path = tmp_path / "q.xscl"
    path.write_text(
        "-- Not this one.\n\n-- Two items of one title belong together: the second is later. And so"
        "\n-- on.\npair: SELECT t, body\n"
        "  FROM S//item[./title->t][./description->body]\n"
        "  FOLLOWED BY {t = again, 2 days} S//item[./title->again];\n"
    )
    title = "A title that is so long that no terminal of forty columns can have it on one line"
    items = [
        f"<guid>{day}</guid><title>{title} \u202e</title><link>https://a.example/1</link>"
        f"<description>b</description><pubDate>{day} Jul 2021 10:00:00 GMT</pubDate>"
        for day in (16, 17)
    ]
    put(tmp_path, "f", "20210718T100000Z", rss(*items))
    line = f"{BROKER} replay {tmp_path} {path} --format text"
    wide = typed(f"{line} 2> {tmp_path / 'messages'}", columns=130)
    assert wide.code == 0, wide.text
    assert wide.lines == [
        "● Two items of one title belong together".ljust(126) + "pair",
        f"│ {title} \\u202e",
        "│   News, 2021-07-16 10:00 UTC",
        "│   https://a.example/1",
        f"│ {title} \\u202e",
        "│   News, 1 day later",
        f'│ joined because t = again = "{title} \\u202e"',
        "│ body: b",
    ]
    assert re.search(r"\x1b]8;[^\x1b]*;https://a\.example/1\x1b", wide.raw)  # a title is a link
    narrow = typed(f"{line} 2> {tmp_path / 'messages'}", columns=40, NO_COLOR="1")
    assert narrow.lines[0] == "● Two items of one title belong together"
    assert all(each.startswith(("● ", "│ ")) for each in narrow.lines)
    assert not re.search("\x1b\\[[0-9;]*3[0-7]m", narrow.raw)


def test_results_and_messages_part_where_one_of_them_goes_elsewhere(
    archive: Path, queries: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    ended = typed(f"{BROKER} replay {archive} {queries} > {out}")
    assert (ended.code, ended.lines[-1]) == (0, f"{FEW:,} items, {FEW:,} matches")
    assert len(out.read_text(encoding="utf-8").splitlines()) == FEW
    ended = typed(f"{BROKER} replay {archive} {queries} 2> {tmp_path / 'messages'}")
    assert (ended.code, ended.raw.count("\n")) == (0, FEW)


# -- interrupted -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (None, 130, "broker: interrupted"),
        (signal.SIGINT, 130, "broker: interrupted"),
        (signal.SIGTERM, 143, ""),
        (signal.SIGHUP, 129, ""),
    ],
    ids=["ctrl-c", "SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_replay_that_is_interrupted(
    number: signal.Signals | None,
    code: int,
    says: str,
    large: Path,
    queries: Path,
    tmp_path: Path,
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    line = f"replay {large} {queries} --format text"
    with terminal(line.split(), TMPDIR=str(scratch)) as replay:
        replay.until("é0-0")  # and from here on nobody reads, so it cannot come to its end
        if number is None:
            replay.type(CTRL_C)
        else:
            os.kill(replay.process.pid, number)
        ended = replay.ended()
        clean(replay)
    assert ended.code == code, ended.text
    assert ended.lines[-1].endswith(says)
    assert re.search(r"^[\d,]+ items?, [\d,]+ match", ended.text, re.MULTILINE)
    assert f"{MANY:,} items" not in ended.text
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("pipeline", [pytest.param("spark", marks=pytest.mark.spark), "local"])
def test_ctrl_c_ends_a_run_in_order(pipeline: str, queries: Path, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"id": "1", "xml": "<item><title>one</title></item>"}\n')
    line = f"run {queries} --documents {tmp_path / 'd.jsonl'} --format text --pipeline {pipeline}"
    with terminal(line.split(), TMPDIR=str(tmp_path)) as running:
        running.until("one", "1 document, 1 match")
        running.type(CTRL_C)
        ended = running.ended()
        clean(running)
    assert ended.code == 0, ended.text
    assert re.fullmatch(r"1 document, 1 match in [\d.]+ s", ended.lines[-1])


def test_commands_that_wait_are_interrupted(service: Serving) -> None:
    for line, words in (
        ("tail", "following all subscriptions; stop with Ctrl-C"),
        ("publish waits -", "waiting for documents"),
    ):
        with terminal(line.split(), BROKER_STATE=str(service.state)) as waiting:
            waiting.until(words)
            waiting.type(CTRL_C)
            ended = waiting.ended()
            clean(waiting)
        assert ended.code == 130, ended.text
        assert ended.lines[-1].endswith("broker: interrupted")


# -- streams that are odd ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code", "last"),
    [
        (
            "{broker} explain {queries} | head -1",
            0,
            "all: finds an item of S (A); a match shows t",
        ),
        ("{broker} replay {large} {queries} | head -1 > /dev/null", 0, ""),
        ("{broker} check {queries} 2>&1 | head -0", 0, ""),
        ("{broker} explain {queries} > /dev/full", 1, "broker: output: No space left on device"),
        ("{broker} explain {queries} >&-", 1, "broker: output: Bad file descriptor"),
        (
            "{broker} replay {archive} {queries} > /dev/full",
            1,
            "broker: standard output: No space left on device; with --state, what was found is "
            "delivered by the next run",
        ),
        (
            "{broker} replay {archive} {queries} --out /dev/full",
            1,
            "broker: --out /dev/full: No space left on device; with --state, what was found is "
            "delivered by the next run",
        ),
        (
            "{broker} replay {archive} {queries} >&-",
            1,
            "broker: standard output is closed; give --out FILE",
        ),
        ("{broker} check {queries} 2> /dev/full", 0, ""),
        ("{broker} check {queries} 2>&-", 0, ""),
        ("{broker} check {queries} <&- >&- 2>&-", 0, ""),
        (
            "{broker} replay {archive} {queries} --out /dev/stdout | tail -1 | cut -c1-6",
            0,
            '{{"id":',
        ),
        ("{broker} replay {archive} {queries} 2>&- | tail -1 | cut -c1-6", 0, '{{"id":'),
    ],
)
def test_streams_that_are_odd(
    line: str, code: int, last: str, archive: Path, large: Path, queries: Path
) -> None:
    shown = line.format(broker=BROKER, archive=archive, large=large, queries=queries)
    ended = typed(f"set -o pipefail; {shown}", columns=200)
    assert ended.code == code, ended.text
    assert (ended.lines or [""])[-1] == last.format()
    assert "Traceback" not in ended.text


def test_a_terminal_and_a_pipe_of_another_encoding(archive: Path, queries: Path) -> None:
    line = f"{BROKER} replay {archive} {queries}"
    shown = typed(f"{line} --format text", PYTHONIOENCODING="ascii")
    assert shown.code == 0, shown.text
    assert "| \\xe90-0" in shown.lines
    # JSON is UTF-8, whatever the terminal has.
    piped = typed(f"{line} | tail -1", PYTHONIOENCODING="ascii", columns=1_000)
    assert '"t": ["é2-' in piped.text


def test_standard_input_that_is_closed(service: Serving) -> None:
    ended = typed(f"{BROKER} publish closed - <&-", BROKER_STATE=str(service.state))
    assert (ended.code, ended.lines) == (
        1,
        ["broker: input: Bad file descriptor", "0 documents accepted"],
    )


# -- long work ---------------------------------------------------------------------------------


def test_many_queries_show_how_far_they_are(service: Serving, tmp_path: Path) -> None:
    path, state = tmp_path / "many.xscl", str(service.state)
    total = 2_500
    queries = [
        f"many-{n}: SELECT t FROM Many//book[./title->t][./n = '{n}'];" for n in range(total)
    ]
    path.write_text("\n".join(queries))
    with terminal(["subscribe", str(path)], BROKER_STATE=state) as adding:
        adding.until("1,000 of 2,500 queries")
        adding.type(CTRL_C)
        ended = adding.ended()
        clean(adding)
    assert ended.code == 130, ended.text
    stopped = re.search(r"([\d,]+) of 2,500 queries were added: \1 new; given again", ended.text)
    assert stopped, ended.text
    ended = typed(["subscribe", str(path)], BROKER_STATE=state)
    count = int(stopped[1].replace(",", ""))
    assert ended.code == 0, ended.text
    # What was under way when Ctrl-C came may have been added, which nobody could say any more.
    told = set(ended.lines[-1].removeprefix("2,500 queries: ").split(", "))
    possible = [{f"{total - n:,} new", f"{n:,} unchanged"} for n in (count, count + 1_000)]
    assert told in possible


def test_subscriptions_of_a_prefix(service: Serving, tmp_path: Path) -> None:
    path = tmp_path / "some.xscl"
    path.write_text("\n".join(f"some-{n}: SELECT t FROM Some//a[./t->t];" for n in range(3)))
    service.done("subscribe", path)
    output = service.done("pause", "--prefix", "some-")
    each = [f"some-{n}: paused" for n in range(3)]
    assert output.splitlines() == [*each, "some-: 3 subscriptions paused"]
    assert "some-0: active" in service.done("resume", "some-0")
    output = service.done("pause", "--prefix", "some-")
    assert output.splitlines()[-1] == "some-: 1 subscription paused, 2 as before"
    assert "some-2: unsubscribed" in service.done("unsubscribe", "--prefix", "some-")
    assert service.broker("pause", "--prefix", "some-").stderr == "some-: 0 subscriptions\n"
    result = service.broker("pause")
    assert (result.returncode, "or --prefix" in result.stderr) == (2, True)


def test_before_all_of_a_prefix_go_a_person_is_asked(service: Serving, tmp_path: Path) -> None:
    path, state = tmp_path / "going.xscl", str(service.state)
    path.write_text("\n".join(f"going-{n}: SELECT t FROM Go//a[./t->t];" for n in range(60)))
    service.done("subscribe", path)
    line = ["unsubscribe", "--prefix", "going-"]
    with terminal(line, BROKER_STATE=state) as asked:
        asked.until("Drop the 60 subscriptions whose ids begin with going-? [y/N]")
        asked.type("\n")
        ended = asked.ended()
    assert (ended.code, ended.lines[-1]) == (1, "broker: nothing was unsubscribed")
    with terminal(line, BROKER_STATE=state) as asked:
        asked.until("[y/N]")
        asked.type(CTRL_C)
        assert asked.ended(pressing=CTRL_C).code == 130
    with terminal(line, BROKER_STATE=state) as asked:
        asked.until("[y/N]")
        asked.type("y\n")
        ended = asked.ended()
    assert (ended.code, ended.lines[-1]) == (0, "going-: 60 subscriptions unsubscribed")
    service.done("subscribe", path)
    ended = typed([*line, "--yes"], BROKER_STATE=state)
    assert (ended.code, ended.lines) == (0, ["going-: 60 subscriptions unsubscribed"])


def test_very_many_that_are_named_are_changed_at_once(service: Serving, tmp_path: Path) -> None:
    path = tmp_path / "named.xscl"
    ids = [f"named-{n}" for n in range(60)]
    path.write_text("\n".join(f"{id}: SELECT t FROM Named//a[./t->t];" for id in ids))
    service.done("subscribe", path)
    assert service.done("pause", *ids) == "60 subscriptions paused\n"
    listed = service.done("list", "named-").splitlines()
    assert sum(line.split()[1] == "paused" for line in listed) == 60
    result = service.broker("resume", *ids, "nobody")
    assert (result.returncode, result.stderr.splitlines()) == (
        1,
        ["60 subscriptions resumed", "broker: 1 id nobody has: nobody"],
    )
