"""The pipeline of one process: it finds what the library finds, however it is cut and killed."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from broker import Broker, Document, Match
from broker.documents.ahead import WORTH, Ahead
from broker.local.pipeline import run_local
from broker.local.positions import FILE
from broker.local.sources import JsonLines, Source, Spooled, XmlFolder
from broker.runs import PipelineError, Progress, Stop, Summary, stop_on_signals
from broker.sources.documents import XmlFiles
from broker.sources.jsonlines import Offset
from feeds.rows import DocumentRow
from feeds.spool import Spool, SpoolError
from tests.command import program
from tests.feeds.spooling import posted
from tests.seeds import seeds
from tests.waiting import PATIENCE, until

PAIR = """
    pair: S//book->x1[./author->x2][./title->x3]
    FOLLOWED BY {x2=x5 AND x3=x6, 100 days}
    S//blog->x4[./author->x5][./title->x6]
"""
OLD = 1_600_000_000


def book(n: int) -> str:
    return f"<book><author>Ann {n}</author><title>Knots {n}</title></book>"


def blog(n: int) -> str:
    return f"<blog><author>Ann {n}</author><title>Knots {n}</title></blog>"


def xml(folder: Path, **options: Any) -> XmlFolder:
    return XmlFolder(XmlFiles(str(folder), str(folder), ("S",), **options))


def write(path: Path, text: str, at: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (OLD + at, OLD + at))


def lines(numbers: Iterable[int]) -> str:
    """Books of even numbers and their blogs, as lines of JSON."""
    return "".join(
        json.dumps({"id": f"d{n}", "timestamp": OLD + n, "xml": (blog if n % 2 else book)(n // 2)})
        + "\n"
        for n in numbers
    )


def once(
    state: Path, *sources: Source, progress: list[Progress] | None = None
) -> tuple[Summary, list[Match]]:
    found: list[Match] = []
    with Broker(state) as broker:
        broker.subscribe(PAIR)
        summary = run_local(
            broker.engine,
            sources,
            state,
            once=True,
            on_matches=found.extend,
            on_progress=(progress if progress is not None else []).append,
        )
    return summary, found


def pairs(matches: Iterable[Match]) -> list[tuple[str, ...]]:
    return sorted(tuple(each.id for each in match.documents) for match in matches)


def test_files_lines_and_feeds_are_joined_in_order_of_age(tmp_path: Path) -> None:
    folder, state = tmp_path / "in", tmp_path / "state"
    write(folder / "deep" / "book.xml", book(1), 1)
    write(folder / "blog.xml", blog(1), 2)
    write(folder / "lines.jsonl", lines([4, 5]), 3)
    write(folder / ".hidden.xml", blog(1), 3)
    write(folder / "_begun" / "blog.xml", blog(1), 3)
    write(folder / "notes.txt", blog(1), 3)
    with Spool(tmp_path / "spool.sqlite") as spool:
        spool.publish([posted("post", blog(2).encode())])
        sources: list[Source] = [JsonLines(folder), xml(folder), Spooled(spool.path, 0)]
        progress: list[Progress] = []
        summary, found = once(state, *sources, progress=progress)
    assert (summary.documents, summary.matches, summary.batches) == (5, len(found), 1)
    assert summary.undated == {str(folder): 2}
    assert ("deep/book.xml", "blog.xml") in pairs(found)
    assert ("d4", "d5") in pairs(found)
    assert [each.documents for each in progress] == [5]
    assert set(progress[0].seconds) == {"read", "stage1", "stage2", "deliver"}


def test_the_pipeline_finds_what_the_library_finds(tmp_path: Path) -> None:
    """Also cut into many batches, with bad documents between."""
    rng = random.Random(5)
    numbers = rng.sample(range(200), 200)
    text = lines(numbers).splitlines(keepends=True)
    text[50:50] = ["no JSON\n", '{"id": "bad", "timestamp": 1600000005, "xml": "<a>"}\n', "\n"]
    write(tmp_path / "in.jsonl", "".join(text), 0)
    summary, found = once(tmp_path / "state", JsonLines(tmp_path / "in.jsonl", rows=7))
    with Broker(tmp_path / "library") as broker:
        broker.subscribe(PAIR)
        expected = broker.process(
            Document(id=f"d{n}", timestamp=float(OLD + n), xml=(blog if n % 2 else book)(n // 2))
            for n in numbers
        )
    assert pairs(found) == pairs(expected)
    assert (summary.documents, summary.batches) == (202, 29)
    with Broker(tmp_path / "state") as broker:
        assert len(broker.dead_letters()) == 2


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    folder, state = tmp_path / "in", tmp_path / "state"
    write(folder / "a.xml", book(1), 1)
    write(folder / "in.jsonl", lines([4]), 1)
    assert once(state, xml(folder), JsonLines(folder))[0].documents == 2
    assert once(state, xml(folder), JsonLines(folder))[0].documents == 0
    write(folder / "b.xml", blog(1), 0)  # older than what was read
    write(folder / "a.xml", blog(1), 9)  # a file that changes is not read again
    write(folder / "in.jsonl", lines([4, 5]), 1)
    summary, found = once(state, xml(folder), JsonLines(folder))
    assert (summary.documents, pairs(found)) == (2, [("d4", "d5")])
    # The positions are only a hint: the engine knows what it has.
    (state / FILE).unlink()
    summary, found = once(state, xml(folder), JsonLines(folder))
    assert (summary.documents, found) == (4, [])


def test_one_file_and_files_in_parts(tmp_path: Path) -> None:
    many = tmp_path / "in" / "many.xml"
    write(many, f"<all>{book(1)}{book(2)}</all>", 1)
    write(tmp_path / "in" / "other.xml", blog(1), 1)
    summary, _ = once(tmp_path / "state", xml(many, split="book"))
    assert summary.documents == 2
    with Broker(tmp_path / "state") as broker:
        stored = broker.engine.store.rows("SELECT id FROM documents ORDER BY id")
    assert [id for (id,) in stored] == ["many.xml#1", "many.xml#2"]


def test_a_file_that_cannot_be_read_is_kept_aside(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder / "a.xml", "<book>", 1)
    (folder / "gone.xml").symlink_to(tmp_path / "nowhere")
    (folder / "loop.xml").symlink_to("loop.xml")
    write(folder / "b.xml", book(1), 1)
    summary, _ = once(tmp_path / "state", xml(folder))
    assert summary.documents == 2
    with Broker(tmp_path / "state") as broker:
        (letter,) = broker.dead_letters()
    assert letter.place == str(folder / "a.xml")


def test_a_stream_goes_on_until_it_is_told_to_stop(tmp_path: Path) -> None:
    file, state = tmp_path / "in.jsonl", tmp_path / "state"
    file.write_text(lines([0]))

    def more(_: Progress) -> None:
        if file.read_text() == lines([0]):
            file.write_text(lines([0, 1]))

    found: list[Match] = []

    def deliver(matches: list[Match]) -> None:
        found.extend(matches)
        signal.raise_signal(signal.SIGTERM)

    with Broker(state) as broker, stop_on_signals() as stop:
        broker.subscribe(PAIR)
        source = JsonLines(file)
        summary = run_local(
            *(broker.engine, [source], state),
            once=False,
            on_matches=deliver,
            on_progress=more,
            stop=stop,
        )
    assert stop.signal == signal.SIGTERM
    assert (summary.documents, pairs(found)) == (2, [("d0", "d1")])


def test_a_stop_that_is_set_reads_nothing(tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", lines([0]), 0)
    stop = Stop()
    stop.set()
    with Broker(tmp_path / "state") as broker:
        source = JsonLines(tmp_path / "in.jsonl")
        summary = run_local(
            broker.engine, [source], tmp_path / "state", once=True, on_matches=print, stop=stop
        )
    assert summary.documents == 0


def test_a_search_without_end_ends_with_the_run(tmp_path: Path) -> None:
    """Nothing of its batch is stored, so the next run begins with it."""
    state, stop = tmp_path / "state", Stop()
    many = "".join([f"<n>{n}</n>" for n in range(3_000)])
    text = "".join([json.dumps({"id": str(n), "xml": f"<r>{many}</r>"}) + "\n" for n in range(2)])
    (tmp_path / "in.jsonl").write_text(text)
    with Broker(state) as broker:
        broker.subscribe("q: S//r->x FOLLOWED BY {x//n + y//n + x//n + y//n = 0.5, 1 h} S//r->y")
        engine, summaries = broker.engine, list[Summary]()

        def run() -> None:
            source = JsonLines(tmp_path / "in.jsonl")
            summaries.append(
                run_local(engine, [source], state, once=True, on_matches=print, stop=stop)
            )

        running = threading.Thread(target=run)
        running.start()
        until(lambda: engine.work.thread is not None)
        stop.set()
        running.join(PATIENCE)
        assert [summary.documents for summary in summaries] == [0]
        broker.unsubscribe("q")
        stop = Stop()
        run()
        assert summaries[-1].documents == 2


def test_a_spool_that_was_replaced_is_refused(tmp_path: Path) -> None:
    with Spool(tmp_path / "spool.sqlite") as spool:
        spool.publish([posted("one", b"<a/>")])
        Spooled(spool.path, 1)
        with pytest.raises(SpoolError, match="ends at 1, but 7 was read from it before"):
            Spooled(spool.path, 7)


def test_an_engine_that_fails_ends_the_run_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in.jsonl", lines([0]), 0)
    with Broker(tmp_path / "state") as broker:
        broker.subscribe(PAIR)

        def full(*_: object) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr(broker.engine.admission.progress, "write", full)
        with pytest.raises(PipelineError, match="batch 1: OSError: No space left") as caught:
            run_local(
                broker.engine,
                [JsonLines(tmp_path / "in.jsonl")],
                tmp_path / "state",
                once=True,
                on_matches=print,
            )
    assert isinstance(caught.value.__cause__, OSError)
    summary, _ = once(tmp_path / "state", JsonLines(tmp_path / "in.jsonl"))
    assert summary.documents == 1, "what failed is read again"


def test_a_folder_that_cannot_be_listed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "in" / "locked"
    locked.mkdir(parents=True)
    source, scandir = xml(locked.parent), os.scandir

    def listed(path: str) -> Any:
        if path == str(locked):  # whoever runs the tests may be allowed to read everything
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)
    with pytest.raises(PipelineError, match=f"^{locked}: Permission denied$"):
        once(tmp_path / "state", source)


def test_a_source_that_fails_while_it_is_read_ahead_fails_in_its_turn(tmp_path: Path) -> None:
    class Failing(JsonLines):
        def read(self) -> tuple[list[DocumentRow], Offset]:
            if self.reads:
                raise PermissionError(errno.EACCES, "Permission denied", "there")
            self.reads += 1
            return super().read()

        reads = 0

    write(tmp_path / "in.jsonl", lines(range(WORTH)), 0)
    found: list[Match] = []
    with Broker(tmp_path / "state") as broker:
        broker.subscribe(PAIR)
        ahead = Ahead(broker.engine, True, lambda: False)
        source = Failing(tmp_path / "in.jsonl")
        with pytest.raises(PipelineError, match=r"^there: Permission denied$"):
            run_local(
                *(broker.engine, [source], tmp_path / "state"),
                once=True,
                on_matches=found.extend,
                ahead=ahead,
            )
    assert len(found) == WORTH // 2


DRIVER = """
import os, signal, sys
from pathlib import Path
from broker import Broker
from broker.documents.ahead import Ahead
from broker.local.pipeline import run_local
from broker.local.positions import Positions
from broker.local.sources import JsonLines

state, file, query, when, batch, rows, apart = sys.argv[1:]
steps = 0

def reach(step):
    global steps
    if step == when:
        steps += 1
        if steps == int(batch):
            os.kill(os.getpid(), signal.SIGKILL)

broker = Broker(state)
for text in [Path(query).read_text()]:
    broker.subscribe(text)
with open(f"{state}.found", "a") as out:

    def deliver(matches):
        for match in matches:
            out.write(match.id + "\\n")
        out.flush()
        reach("written")
        broker.acknowledge(matches)
        reach("acknowledged")

    progress = broker.engine.admission.progress
    write, read = progress.write, Positions.read

    def before_commit(*args):
        reach("before commit")
        return write(*args)

    def before_read(self, *args):
        reach("committed")
        read(self, *args)

    progress.write, Positions.read = before_commit, before_read
    deliver(broker.undelivered())
    ahead = Ahead(broker.engine, apart == "True", lambda: False)
    assert apart != "True" or ahead.ready(600)
    lines = JsonLines(Path(file), int(rows))
    run_local(broker.engine, [lines], Path(state), once=True, on_matches=deliver, ahead=ahead)
    assert (ahead.taken > 0) == (apart == "True")
broker.close()
"""


def drive(*arguments: object) -> int:
    return program(DRIVER, *arguments).wait(PATIENCE)


STEPS = ("before commit", "committed", "written", "acknowledged")
KILLS = [
    (step, bool(n) != bool(number % 2)) for n in seeds(1, 2) for number, step in enumerate(STEPS)
]
"""Each step, with stage 1 in a process of its own or not; in a long run both."""


@pytest.mark.parametrize(("when", "apart"), KILLS)
def test_killed_at_each_step_it_loses_nothing(tmp_path: Path, when: str, apart: bool) -> None:
    """Nothing is found twice either; what was written but not acknowledged is written again."""
    rows = 2 * WORTH if apart else 10
    state, file, query = tmp_path / "state", tmp_path / "in.jsonl", tmp_path / "q.xscl"
    write(file, lines(range(6 * rows)), 0)
    query.write_text(PAIR)
    assert drive(state, file, query, when, 3, rows, apart) == -signal.SIGKILL
    assert drive(state, file, query, "never", 0, rows, apart) == 0
    found = Path(f"{state}.found").read_text().split()
    expected = once(tmp_path / "other", JsonLines(file))[1]
    assert set(found) == {match.id for match in expected}
    assert len(found) == len(expected) + (rows // 2 if when == "written" else 0)
