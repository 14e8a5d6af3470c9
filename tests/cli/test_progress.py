"""Progress of long work: on a terminal, through a pipe, and none if the work is short or with
`--quiet`."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from broker import Broker, Document
from broker.cli import progress, shared
from broker.cli.opening import open_broker
from broker.cli.progress import Work, quiet_option, stage
from broker.cli.query_files import read_queries
from broker.engine import Engine
from tests.cli.serving import Serving
from tests.cli.terminal import BROKER, CTRL_C, terminal, typed
from tests.cli.test_terminal import archive_of
from tests.waiting import until

ALL = "all: SELECT t FROM S//item[./title->t];"


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "all.xscl"
    path.write_text(ALL)
    return path


def archived(folder: Path, count: int) -> Path:
    path = folder / "archive"
    path.mkdir()
    return archive_of(path, count)


def test_a_replay_shows_which_share_is_done(queries: Path, tmp_path: Path) -> None:
    archive = archived(tmp_path, 1_500)
    line = f"{BROKER} replay {archive} {queries} > {tmp_path / 'out'}"
    ended = typed(line)
    assert (ended.code, ended.lines) == (0, ["1,500 items, 1,500 matches"])
    assert re.search(r"\d\d%.* items", re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", ended.raw))
    ended = typed(f"{line} --quiet")
    assert (ended.code, ended.lines) == (0, ["1,500 items, 1,500 matches"])
    assert "%" not in ended.raw


def test_a_replay_that_is_stopped_says_how_to_go_on(queries: Path, tmp_path: Path) -> None:
    archive = archived(tmp_path, 3_000)
    state, out = tmp_path / "state", tmp_path / "out"
    line = f"replay {archive} {queries} --state {state} --out {out}".split()
    with terminal(line) as replay:
        replay.until("%", "500 items")
        replay.type(CTRL_C)
        ended = replay.ended()
    assert ended.code == 130, ended.text
    summary = re.search(r"([\d,]+) items, [\d,]+ matches; the same command goes on", ended.text)
    assert summary, ended.text
    assert typed(line).code == 0
    ids = [json.loads(each)["id"] for each in out.read_text(encoding="utf-8").splitlines()]
    assert (len(ids), len(set(ids))) == (3_000, 3_000)


def test_publishing_shows_which_share_of_the_files_is_sent(
    service: Serving, tmp_path: Path
) -> None:
    path = tmp_path / "many.jsonl"
    lines = (json.dumps({"id": f"share-{n}", "xml": f"<a>{n}</a>"}) for n in range(3_000))
    path.write_text("\n".join(lines))
    ended = typed(["publish", "Share", str(path)], BROKER_STATE=str(service.state))
    assert (ended.code, ended.lines) == (0, ["3,000 documents accepted"])
    assert re.search(r"\d\d%", ended.raw)
    ended = typed(["publish", "-q", "Share", str(path)], BROKER_STATE=str(service.state))
    assert ended.lines == ["3,000 documents accepted, known already"]
    assert "%" not in ended.raw


def test_backup_and_restore_say_what_they_do(service: Serving, tmp_path: Path) -> None:
    copy, state = tmp_path / "copy", tmp_path / "restored"
    ended = typed(["backup", str(copy)], BROKER_STATE=str(service.state), columns=300)
    assert (ended.code, len(ended.lines)) == (0, 1), ended.text
    assert "copying the state into" in ended.raw
    ended = typed(["restore", str(copy), "--state", str(state)], columns=300)
    assert (ended.code, len(ended.lines)) == (0, 1), ended.text
    assert "%" in ended.raw


def test_importing_feeds_shows_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "many.opml"
    urls = (f"http://9.9.9.{n % 40}/{n}.xml" for n in range(2_000))
    path.write_text(f"<opml>{''.join(f'<outline xmlUrl={url!r}/>' for url in urls)}</opml>")
    done = f"{path}: 2,000 feeds, {{}} of them new"
    line = f"feeds import {path} --since INFINITY --state {tmp_path / 'state'}"
    ended = typed(line.split(), columns=250)
    assert (ended.code, ended.lines) == (0, [done.format("2,000")])
    for step in ("checked", "added"):
        assert re.search(f"100%.* 2,000 of 2,000 feeds, {step}", ended.raw), step
    ended = typed(f"{line} --quiet".split(), columns=250)
    assert (ended.code, ended.lines, "%" in ended.raw) == (0, [done.format("0")], False)


# -- where there is no terminal ----------------------------------------------------------------


@click.command()
@quiet_option
def _works() -> None:
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shared.console, "print", lambda text, **_: lines.append(text))
        with Work("item", total=4, every=0.01) as work:
            work.advance(1)

            def due() -> bool:
                work.advance(0)
                return bool(lines) or progress.quiet()

            until(due)
        with Work("document", total=900, parts=True, every=0) as work:
            work.advance(note="waiting")
            work.advance(2, part=450, note="")
        with stage("copying", every=0.01):
            until(lambda: any("so far" in line for line in lines) or progress.quiet())
    click.echo("\n".join(lines))


def test_a_line_comes_every_so_often_and_none_where_nobody_wants_it() -> None:
    output = CliRunner().invoke(_works).output.splitlines()
    assert any(re.match(r"\d of 4 items, \d+%", line) for line in output), output
    assert "0 documents, waiting, 0%" in output
    assert any(line.startswith("2 documents, 50%") for line in output), output
    assert "copying" in output
    assert any(re.match(r"copying, for .* so far", line) for line in output), output
    assert CliRunner().invoke(_works, ["--quiet"]).output == "\n"


# -- registering -------------------------------------------------------------------------------


def _many(folder: Path, count: int) -> Path:
    path = folder / "many.xscl"
    queries = (f"many-{n}: SELECT t FROM S//a[./t->t][./n = '{n}'];" for n in range(count))
    path.write_text("\n".join(queries))
    return path


def test_registering_many_queries_shows_how_far_it_is(tmp_path: Path) -> None:
    path, archive = _many(tmp_path, 4_000), archived(tmp_path, 3)
    ended = typed(["replay", str(archive), str(path)], columns=250)
    assert (ended.code, ended.lines[0]) == (0, "3 items, 0 matches")
    assert [line[:32] for line in ended.lines[1:]] == ["nothing matched; this tells why:"]
    assert "queries, read" in ended.raw
    assert re.search("[0-9],[0-9]{3} of 4,000 queries, checked", ended.raw)
    assert re.search("[0-9],000 of 4,000 queries, registered", ended.raw)


def test_registering_that_is_stopped_says_how_far_it_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files, state = read_queries([_many(tmp_path, 4_000)]), tmp_path / "state"
    subscribe, calls = Engine.subscribe, count(1)

    def stopped(*args: Any) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return subscribe(*args)

    monkeypatch.setattr(Engine, "subscribe", stopped)
    with pytest.raises(KeyboardInterrupt):
        open_broker(state, 0, files)
    message = "2,000 of 4,000 queries were registered in"
    assert f"{message} {state}; the same command goes on with the others" in capsys.readouterr().err
    with Broker(state) as broker:
        assert len(broker.subscriptions) == 2_000
    with open_broker(state, 0, files) as broker:
        assert len(broker.subscriptions) == 4_000


def test_history_is_looked_at_with_its_share(tmp_path: Path) -> None:
    documents, queries, state = tmp_path / "d.jsonl", tmp_path / "q.xscl", tmp_path / "state"
    text = "first: S//a[./t->t] FOLLOWED BY {t = u, 1 day} S//a[./t->u];"
    queries.write_text(f"{text} second: SELECT t FROM S//a[./t->t];")
    with Broker(state) as broker:
        broker.subscribe(text)
        broker.process(
            Document(id=f"{n}", timestamp=float(n), xml=f"<a><t>{n}</t></a>") for n in range(1_500)
        )
    documents.write_text('{"id": "last", "xml": "<a><t>last</t></a>"}\n')
    line = f"run {queries} --documents {documents} --state {state} --once --out {tmp_path / 'out'}"
    ended = typed(f"{line} --pipeline local --backfill INFINITY".split())
    assert "history: 1,500 documents, 1,500 matches" in ended.lines
    assert re.search(r"of 1,500 documents, of history", ended.raw)
