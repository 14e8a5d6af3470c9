"""`broker check`, `explain`, `fmt`, as a user types them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from broker.cli.commands import SECTIONS, cli
from feeds import __file__ as feeds_file
from tests.cli.terminal import BROKER, CTRL_C, CTRL_D, terminal
from tests.command import run as run_command
from tests.waiting import PATIENCE

DEMO = Path(feeds_file).parent / "samples" / "demo.xscl"


def broker(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_command(args, cwd=cwd, timeout=PATIENCE)


def test_a_command_that_is_not_there() -> None:
    result = broker("subscrbe", "x.xscl")
    assert result.returncode == 2
    assert result.stderr.endswith("Error: No such command 'subscrbe'. Did you mean subscribe?\n")
    assert broker("qqq").stderr.endswith("Error: No such command 'qqq'.\n")


def test_check_accepts_the_demo() -> None:
    result = broker("check", DEMO)
    assert result.returncode == 0, result.stderr
    assert "10 queries, no errors" in result.stderr
    assert result.stdout == ""


def test_check_points_at_every_error_and_exits_with_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.xscl"
    bad.write_text("a: S//x->v[./y->w] JOIN {w = z} S//x[./y->z2];\nb: S//x[[;\n")
    worse = tmp_path / "worse.xscl"
    worse.write_text("c: S//")
    result = broker("check", bad, worse)
    assert result.returncode == 2
    assert "bad.xscl:2:" in result.stderr
    assert "worse.xscl:1:" in result.stderr
    assert "^" in result.stderr
    (tmp_path / "bad.xscl").write_text("a: S//x->v[./y->w] JOIN {w = z} S//x[./y->z2];")
    result = broker("check", bad)
    assert result.returncode == 2
    assert "z2" in result.stderr


def test_event_patterns_are_checked_explained_and_run(tmp_path: Path) -> None:
    path = tmp_path / "patterns.xscl"
    path.write_text("one: S/a->x FOLLOWED BY {1 h} NOT S/b->y WHERE x = y WAIT 10 min;\n")
    checked = broker("check", path)
    assert checked.returncode == 0
    assert "one answers 10 min after the end of its window" in checked.stderr
    assert broker("fmt", path).stdout.splitlines()[0] == "one: S/a->x"
    shown = broker("explain", path, "--stage", "pattern").stdout
    assert "not, within 1 h where x = y" in shown
    assert "SELECT v1 FROM S/b->v1" in shown
    several = "q: S/a FOLLOWED BY S/b FOLLOWED BY NOT S/n FOLLOWED BY S/c WITHIN 1 h"
    planned = piped(several, "explain", "-", "--planner", "TRIVIAL").stdout
    assert "planned by TRIVIAL" in planned
    assert "  from S/a: 100 expected\n  with S/b: 5,000 expected\n" in planned
    assert broker("explain", path, "--stage", "sql").returncode == 2
    documents = tmp_path / "d.jsonl"
    documents.write_text(
        '{"id":"a1","stream":"S","timestamp":"2026-10-01T00:00:00Z","xml":"<a>1</a>"}\n'
        '{"id":"a2","stream":"S","timestamp":"2026-10-01T00:10:00Z","xml":"<a>2</a>"}\n'
        '{"id":"b2","stream":"S","timestamp":"2026-10-01T00:20:00Z","xml":"<b>2</b>"}\n'
        '{"id":"a3","stream":"S","timestamp":"2026-10-01T05:00:00Z","xml":"<a>3</a>"}\n'
    )
    command = "run", path, "--documents", documents, "--once", "--pipeline", "local"
    run = broker(*command)
    (match,) = map(json.loads, run.stdout.splitlines())
    assert [each["id"] for each in match["documents"]] == ["a1"]
    assert match["blocks"] == [0]
    beyond = "beyond 2026-10-01T06:10:00Z"
    assert f"waiting: 1 possible match of one, until a document or the clock is {beyond}" in (
        run.stderr
    )
    assert "--decide" in run.stderr
    decided = broker(*command, "--decide")
    assert [json.loads(line)["documents"][0]["id"] for line in decided.stdout.splitlines()] == [
        "a1",
        "a3",
    ]
    assert "2 matches" in decided.stderr
    assert "waiting" not in decided.stderr
    assert broker("run", path, "--documents", documents, "--decide").returncode == 2
    path.write_text("n: SELECT x FROM (SELECT * FROM S/a->x NEXT {1 h} S/b WAIT 0 s)/result/a->x")
    said = "the query in the FROM of n answers as soon as time is beyond"
    assert said in broker("check", path).stderr
    path.write_text("S/a FOLLOWED BY NOT S/b")
    assert "error[negation-window]" in broker("check", path).stderr


@pytest.mark.parametrize("stage", ["ast", "normal", "patterns", "template", "sql"])
def test_explain_shows_a_stage_of_one_query(stage: str) -> None:
    result = broker("explain", DEMO, "--query", "same-story", "--stage", stage)
    assert result.returncode == 0, result.stderr
    assert "same-story" in result.stdout
    assert "book-then-author" not in result.stdout
    expected = {
        "ast": "Block",
        "normal": "value join",
        "patterns": "v1",
        "template": "RT row",
        "sql": "SELECT",
    }
    assert expected[stage] in result.stdout


def test_explain_leads_with_a_sentence_and_a_picture() -> None:
    result = broker("explain", DEMO, "--query", "patched")
    assert result.stdout.splitlines() == [
        "patched: finds an item of Lanternfish_Advisories (A), followed within 5 days by an item of"
        " Cratebay_Releases (B), followed within 1 week by an item of Brightmoor_Status (C), where"
        " package = released and released = updated; a match shows package, advisory, release,"
        " notice; it publishes the stream patched",
        "  A  Lanternfish_Advisories//item->adv[./category->package][./title->advisory]",
        "  B  Cratebay_Releases//item->rel[./category->released][./title->release]",
        "  C  Brightmoor_Status//item->stat[./category->updated][./title->notice]",
        "  A ──▶ B  package = released, within 5 days",
        "  B ──▶ C  released = updated, within 1 week",
    ]
    whole = broker("explain", DEMO, "--query", "patched", "--all").stdout
    assert [name in whole for name in ("-- ast", "-- template", "-- sql")] == [True] * 3
    joined = piped("q: S/a->x JOIN S/b->y WHERE x > y WITHIN 2 h", "explain", "-").stdout
    assert joined.startswith(
        "q: finds an a of S (A) and a b of S (B) in any order, where x > y, all within 2 h;"
    )
    drawn = (
        "q: finds an a of S (A), and the next b of S (B) within 1 h; a match shows what its blocks"
        " select\n  A  S/a\n  NEXT  within 1 h\n  B  S/b\n"
    )
    assert piped("q: S/a NEXT {1 h} S/b", "explain", "-").stdout.startswith(drawn)


def test_a_file_that_is_not_utf8_is_shown_its_place(tmp_path: Path) -> None:
    latin = tmp_path / "latin.xscl"
    latin.write_bytes("-- é\na: SELECT t FROM S//item[./title->t] -- caf".encode() + b"\xe9\n")
    for command in (("check",), ("run", "--feeds", "http://a.example/f")):
        result = broker(*command, latin)
        assert result.returncode == 2
        assert f"{latin}:2:44" in result.stderr
        assert "0xe9" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--documents", ".", "--timestamp", "foo(("), "--timestamp 'foo((': Invalid expression"),
        (("--documents", ".", "--state", ""), "the name of a directory is missing"),
        (("--documents", ".", "--websub", "https://a.example/", "--once"), "so no --once"),
        (("--feeds", "http://a.example/f", "--websub", "a"), "not an address that hubs can call"),
    ],
)
def test_a_wrong_command_line_is_refused_before_spark_starts(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = broker("run", DEMO, *options, cwd=tmp_path)
    assert result.returncode == 2
    assert said in result.stderr
    assert "starting Spark" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_explain_names_the_queries_there_are() -> None:
    result = broker("explain", DEMO, "--query", "nothing")
    assert result.returncode == 2
    assert "same-story" in result.stderr


def test_fmt_keeps_comments(tmp_path: Path) -> None:
    path = tmp_path / "q.xscl"
    path.write_text("-- what it is for\nq: s//a -- every a\n;\n")
    assert broker("fmt", "-w", path).returncode == 0
    assert path.read_text() == "-- what it is for\nq: s//a; -- every a\n"


def test_fmt_is_stable(tmp_path: Path) -> None:
    first = broker("fmt", DEMO)
    copy = tmp_path / "copy.xscl"
    copy.write_text(first.stdout)
    assert broker("fmt", copy).stdout == first.stdout
    assert broker("fmt", "-w", copy).returncode == 0
    assert copy.read_text() == first.stdout


def test_run_without_a_source_says_what_to_give() -> None:
    result = broker("run", DEMO)
    assert result.returncode == 2
    assert "--documents or --feeds" in result.stderr


def piped(text: str, *args: object) -> subprocess.CompletedProcess[str]:
    return run_command(args, input=text, timeout=PATIENCE)


def test_queries_come_through_standard_input() -> None:
    assert piped("a: S//b; c: S//d", "check", "-").stderr == "2 queries, no errors\n"
    assert piped("a: S//b->x", "explain", "-", "--stage", "normal").stdout.count("//b -> x") == 1
    assert piped("s//b  -- all", "fmt", "-").stdout == "s//b; -- all\n"


def test_errors_of_standard_input_have_places(tmp_path: Path) -> None:
    file = tmp_path / "q.xscl"
    file.write_text("q: S//x[[")
    done = piped("a: S//b;\nc: S//d[", "check", "-", file)
    assert done.returncode == 2
    assert " --> <stdin>:2:9\n" in done.stderr
    assert f" --> {file}:1:9\n" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("check", "-", "-"), "- is standard input, and is read once"),
        (("fmt", "-w", "-"), "--write rewrites files, and standard input (-) is none"),
    ],
)
def test_standard_input_is_read_once_and_never_written(args: tuple[str, ...], said: str) -> None:
    done = piped("S//a", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_terminal_is_told_how_to_end_the_text() -> None:
    with terminal(f"{BROKER} check -") as started:
        started.until("Ctrl-D on a line of its own ends them")
        started.type("q: S//item\n" + CTRL_D)
        ended = started.ended()
    assert (ended.code, ended.lines[-1]) == (0, "1 query, no errors")


def test_waiting_for_text_is_interrupted() -> None:
    with terminal(f"{BROKER} check -") as started:
        started.until("Ctrl-D")
        started.type(CTRL_C)
        ended = started.ended()
    assert (ended.code, ended.lines[-1].removeprefix("^C")) == (130, "broker: interrupted")


def commands(group: click.Group, above: str = "broker") -> Iterator[tuple[str, click.Command]]:
    """All commands, those of groups too, by what one types."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield f"{above} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{above} {name}")


def test_every_command_and_option_is_documented() -> None:
    for name, command in commands(cli):
        assert command.help, name
        for parameter in command.params:
            if parameter.param_type_name == "option":
                shown = parameter.name in ("form", "out")
                assert shown or getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_the_help_of_broker_says_what_that_of_the_command_does() -> None:
    for section in SECTIONS.values():
        for name, (_, text) in section.items():
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            told = " ".join(str(command.help).split())
            assert text, name
            assert told.startswith(text), f"{name}: {told}"


@pytest.mark.parametrize("stage", ["normal", "patterns"])
def test_explain_has_prefixes_for_names_of_namespaces(stage: str) -> None:
    query = (
        'LET NAMESPACE a = "urn:x"; LET NAMESPACE ab = "urn:x:y";'
        "q: S//a:b[./ab:c->x][./@a:d = 'e'] FOLLOWED BY {x = y} S//ab:f->y"
    )
    shown = piped(query, "explain", "-", "--stage", stage).stdout.partition("\n")[2]
    assert "urn:x" not in shown
    assert all(name in shown for name in ("/a:b", "/ab:c", "/ab:f"))


def test_explain_says_how_each_filter_is_decided() -> None:
    query = "a: S//b->x[./c = 'd'][./e[2]][./f != 'g']"
    shown = piped(query, "explain", "-", "--stage", "patterns").stdout
    lines = shown.partition("decided:\n")[2].splitlines()
    how = dict(line.split("  ", 2)[1:] for line in lines if line)
    assert how == {
        "[./c = 'd']": "by the index of constants",
        "[./e[2]]": "dear: on the numbered nodes of the document, once for each node that reaches it",
        "[./f != 'g']": "once for each node that reaches it",
    }
