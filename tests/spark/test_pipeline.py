"""The pipeline with real Spark and a real engine: sources, failures, restarts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker import Broker, Document, Match
from broker.documents.arrow import Arrivals
from broker.runs import PipelineError, stop_on_signals
from broker.shared_match import SharedMatch
from broker.spark.pipeline import STAGES, run_pipeline
from broker.spark.sources import json_source, union, xml_source
from feeds.rows import DocumentRow
from tests.spark.conftest import PAIR, Running, blog, book
from tests.statistics.test_streams import agree
from tests.waiting import until


def test_a_directory_of_xml_files(running: Running, folder: Path) -> None:
    for n in range(12):
        (folder / f"{n:02d}-book.xml").write_text(book(n, 1_000 + n))
        (folder / f"{n:02d}-blog.xml").write_text(blog(n, f"1970-01-01T01:00:{n:02d}Z"))
    (folder / "07-blog.xml").write_text("<blog><author>Ann 7</blog>")
    (folder / "notes.txt").write_text("no document")
    source = xml_source(running.session, folder, timestamp="/*/date", files_per_batch=5)
    summary = running.run(source)
    assert len(running.matches) == 11
    assert len({m.id for m in running.matches}) == 11
    assert running.stored()["03-blog.xml"] == 3_603
    assert running.broker.engine.streams.paths("S")["/book/title"] == 12
    agree(running.broker)
    (place,) = running.reasons()
    assert place == f"{folder}/07-blog.xml"
    assert "not well-formed" in running.reasons()[place]
    assert (summary.documents, summary.batches, summary.matches) == (24, 5, 11)
    assert [p.documents for p in running.progress] == [5, 5, 5, 5, 4]
    assert set(running.progress[0].seconds) == set(STAGES)
    assert running.progress[0].seconds["stage1"] > 0
    assert summary.seconds["list"] > 0

    again = running.run(source)
    assert (again.documents, again.batches) == (0, 0)


def test_file_names_may_be_anything(running: Running, tmp_path: Path) -> None:
    folder = tmp_path / "a [1] {x,y}* é%20#q ?"
    names = ["a b.xml", "x%20y.xml", "h#1.xml", "t:10:20.xml", "b[1]{2}?*.xml", "sub/ü.xml"]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("<blog/>")
    running.run(xml_source(running.session, folder))
    assert sorted(running.stored()) == sorted(names)


def test_one_file_split_into_documents(running: Running, folder: Path) -> None:
    items = "".join(book(n, n) for n in range(3)) + "".join(blog(n, n + 10) for n in range(3))
    file = folder / "all.xml"
    file.write_text(f"<all>{items}</all>")
    (folder / "below").mkdir()
    (folder / "below" / "all.xml").write_text("<all><book/></all>")
    (folder / "other.xml").write_text("<all><book/></all>")
    books = xml_source(running.session, file, timestamp="date", split="book")
    blogs = xml_source(running.session, file, timestamp="date", split="blog", source="blogs")
    running.run(books, blogs)
    rows = running.broker.engine.store.rows('SELECT source, id, "start" FROM documents')
    assert sorted(rows) == sorted(
        (source, f"all.xml#{n + 1}", (n + late) * 1_000_000)
        for source, late in ((str(folder), 0), ("blogs", 10))
        for n in range(3)
    )
    assert len(running.matches) == 3


def test_files_older_than_those_seen_are_read(running: Running, folder: Path) -> None:
    (folder / "new.xml").write_text("<blog/>")
    source = xml_source(running.session, folder)
    running.run(source)
    (folder / "old.xml").write_text("<blog/>")
    os.utime(folder / "old.xml", (1_000_000_000, 1_000_000_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running.broker.engine.watermark, "lateness", 10**18)
        running.run(source)
    assert running.stored()["old.xml"] == 1_000_000_000


def test_lines_of_json_with_bad_ones_between(running: Running, folder: Path) -> None:
    file = folder / "in.jsonl"
    lines = [
        json.dumps({"id": "d1", "timestamp": 1, "xml": book(1, 0)}),
        "{this is not json",
        json.dumps({"id": "d2", "timestamp": 2, "xml": "<a><b></a>"}),
        json.dumps({"id": "d3", "timestamp": "1970-01-01T00:00:03Z", "xml": blog(1, 0)}),
        json.dumps({"id": "d3", "timestamp": 4, "xml": blog(1, 0)}),
    ]
    file.write_text("\n".join(lines))
    running.run(json_source(running.session, folder, lines_per_batch=2))
    assert [tuple(d.id for d in m.documents) for m in running.matches] == [("d1", "d3")]
    assert running.stored() == {"d1": 1, "d3": 3}
    reasons = running.reasons()
    assert set(reasons) == {f"{file}:2", f"{file}:3"}
    assert "not JSON" in reasons[f"{file}:2"]
    letters = {letter.place: letter.xml for letter in running.broker.dead_letters()}
    assert letters[f"{file}:2"] == b"{this is not json"
    assert len(running.progress) == 3

    with file.open("a") as more:
        more.write("\n" + json.dumps({"id": "d5", "timestamp": 5, "xml": blog(1, 0)}) + "\n")
    running.run(json_source(running.session, folder))
    assert [m.documents[1].id for m in running.matches] == ["d3", "d5"]


def test_documents_are_applied_in_order_of_age(running: Running, folder: Path) -> None:
    for n in range(40):
        path = folder / f"{(n * 7) % 40:02d}.xml"
        path.write_text("<blog>" + " " * (n * 400) + "</blog>")
        os.utime(path, (1_000_000 + n, 1_000_000 + n))
    running.run(xml_source(running.session, folder))
    rows = running.broker.engine.store.rows("SELECT id FROM documents ORDER BY doc")
    assert [id for (id,) in rows] == [f"{(n * 7) % 40:02d}.xml" for n in range(40)]


def test_what_a_sink_raises_ends_the_run_with_one_clear_error(
    running: Running, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.xml").write_text(book(1, 1))
    (folder / "b.xml").write_text(blog(1, 2))

    def full(matches: list[Match]) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(PipelineError, match="No space left on device") as caught:
        run_pipeline(
            running.session,
            running.broker.engine,
            [xml_source(running.session, folder, timestamp="/*/date")],
            running.directory / "checkpoint",
            once=True,
            on_matches=full,
        )
    assert isinstance(caught.value.__cause__, OSError)
    assert "\n" not in str(caught.value)
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    # The match was committed before it was handed out; it waits in the outbox.
    assert len(running.broker.undelivered()) == 1
    running.run(xml_source(running.session, folder, timestamp="/*/date"))
    assert running.matches == []


def test_what_fails_on_an_executor_ends_the_run_with_its_reason(
    running: Running, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.xml").write_text(book(1, 1))

    class Broken:
        def spec(self) -> bytes:
            return b"no pickle"

        def witness(self, rows: Sequence[DocumentRow]) -> Arrivals:
            raise AssertionError("nothing to witness")

        def apply(
            self, arrivals: Arrivals, now: int | None = None, position: int | None = None
        ) -> list[SharedMatch]:
            raise AssertionError("nothing to apply")

    with pytest.raises(PipelineError, match=r"batch 1: .*UnpicklingError") as caught:
        run_pipeline(
            running.session,
            Broken(),
            [xml_source(running.session, folder)],
            running.directory / "checkpoint",
            once=True,
            on_matches=running.matches.extend,
        )
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_damaged_checkpoint_only_replays(running: Running, folder: Path) -> None:
    (folder / "a.xml").write_text(book(1, 1))
    source = xml_source(running.session, folder, timestamp="/*/date")
    running.run(source)
    (folder / "b.xml").write_text(blog(1, 2))
    logs = [p for p in running.directory.glob("checkpoint/*/*/*") if p.is_file()]
    assert logs
    for log in logs:
        log.write_bytes(b"\0\0\0")
    running.run(source)
    assert len(running.matches) == 1
    assert len(running.stored()) == 2

    shutil.rmtree(running.directory / "checkpoint")
    summary = running.run(source)
    assert summary.documents == 2
    assert len(running.matches) == 1
    assert len(running.stored()) == 2


def test_a_stream_goes_on_until_it_is_told_to_stop(running: Running, folder: Path) -> None:
    (folder / "in.jsonl").write_text(
        json.dumps({"id": "d1", "timestamp": 1, "xml": book(1, 0)}) + "\n"
    )
    found: list[Match] = []
    handlers = signal.getsignal(signal.SIGTERM)

    def more(progress: object) -> None:
        if not found:
            with (folder / "in.jsonl").open("a") as file:
                file.write(json.dumps({"id": "d2", "timestamp": 2, "xml": blog(1, 0)}) + "\n")

    def deliver(matches: list[Match]) -> None:
        found.extend(matches)
        os.kill(os.getpid(), signal.SIGTERM)

    with stop_on_signals() as stop:
        summary = run_pipeline(
            running.session,
            running.broker.engine,
            [json_source(running.session, folder)],
            running.directory / "checkpoint",
            once=False,
            on_matches=deliver,
            on_progress=more,
            trigger_interval=0.05,
            stop=stop,
        )
    assert signal.getsignal(signal.SIGTERM) is handlers
    assert (summary.documents, summary.matches, len(found)) == (2, 1, 1)


def test_a_subscription_that_comes_during_a_batch_misses_no_document(
    running: Running, folder: Path
) -> None:
    """The batch is matched again when its spec changed while it was on the executors."""
    (folder / "a.xml").write_text("<memo><to>Ann</to></memo>")
    lock = threading.Lock()
    engine = running.broker.engine

    class Meanwhile:
        """Subscribes right after the first batch took its spec."""

        done = False

        def spec(self) -> bytes:
            spec = engine.spec()
            if not self.done:
                self.done = True
                running.broker.subscribe("memo: S//memo[./to->who]")
            return spec

        def witness(self, rows: Sequence[DocumentRow]) -> Arrivals:
            assert lock.locked()
            return engine.witness(rows)

        def apply(
            self, arrivals: Arrivals, now: int | None = None, position: int | None = None
        ) -> list[SharedMatch]:
            assert lock.locked()
            return engine.apply(arrivals, now, position)

    run_pipeline(
        running.session,
        Meanwhile(),
        [xml_source(running.session, folder)],
        running.directory / "checkpoint",
        once=True,
        on_matches=running.matches.extend,
        lock=lock,
    )
    assert [m.query for m in running.matches] == ["memo"]


def test_who_subscribes_all_the_time_holds_up_nothing(running: Running, folder: Path) -> None:
    """A batch is matched again once, with the lock held so that nothing can come in between."""
    (folder / "a.xml").write_text("<memo><to>Ann</to></memo>")
    engine = running.broker.engine

    class Busy:
        """Subscribes whenever the spec was taken."""

        calls = 0

        def spec(self) -> bytes:
            spec = engine.spec()
            self.calls += 1
            running.broker.subscribe(f"memo{self.calls}: S//memo[./to->who]")
            return spec

        def witness(self, rows: Sequence[DocumentRow]) -> Arrivals:
            return engine.witness(rows)

        def apply(
            self, arrivals: Arrivals, now: int | None = None, position: int | None = None
        ) -> list[SharedMatch]:
            return engine.apply(arrivals, now, position)

    busy = Busy()
    run_pipeline(
        running.session,
        busy,
        [xml_source(running.session, folder)],
        running.directory / "checkpoint",
        once=True,
        on_matches=running.matches.extend,
        lock=threading.Lock(),
    )
    assert busy.calls == 2  # before the first time, and after it
    assert {"memo1", "memo2"} <= {m.query for m in running.matches}


def test_sources_that_do_not_exist(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or directory"):
        xml_source(spark, tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        json_source(spark, tmp_path / "nowhere")
    with pytest.raises(ValueError, match="timestamp"):
        xml_source(spark, tmp_path, timestamp="//[")
    with pytest.raises(ValueError, match="no source"):
        union([])


def test_the_pipeline_finds_what_the_library_finds(running: Running, folder: Path) -> None:
    documents = []
    for n in range(30):
        name, text = f"{n:02d}.xml", (book if n % 3 else blog)(n % 5, n)
        (folder / name).write_text(text)
        documents.append(Document(name, timestamp=n, xml=text, source=str(folder)))
    with Broker() as library:
        library.subscribe(PAIR)
        expected = Counter(m.id for m in library.process(documents))
    assert expected
    running.run(xml_source(running.session, folder, timestamp="/*/date", files_per_batch=7))
    assert Counter(m.id for m in running.matches) == expected


@pytest.mark.parametrize("kind", ["xml", "json"])
@pytest.mark.parametrize("at", [0, 1, 3])
def test_what_the_engine_fails_at_comes_again(
    running: Running, folder: Path, kind: str, at: int
) -> None:
    """Spark has done with a batch while the engine is at it, and goes on with the next one."""
    engine = running.broker.engine
    lines = []
    for n in range(12):
        text = book(n, n) if n < 6 else blog(n - 6, n)
        lines.append(json.dumps({"id": str(n), "timestamp": n, "xml": text}))
        if kind == "xml":
            (folder / f"{n:02d}.xml").write_text(text)
    (folder / "in.jsonl").write_text("\n".join(lines))
    source = (
        xml_source(running.session, folder, timestamp="/*/date", files_per_batch=2)
        if kind == "xml"
        else json_source(running.session, folder, lines_per_batch=2)
    )

    class Failing:
        """Fails at a batch when Spark is at the next one."""

        applied = 0

        def spec(self) -> bytes:
            return engine.spec()

        def witness(self, rows: Sequence[DocumentRow]) -> Arrivals:
            return engine.witness(rows)

        def apply(
            self, arrivals: Arrivals, now: int | None = None, position: int | None = None
        ) -> list[SharedMatch]:
            if self.applied == at:
                until(lambda: any(running.directory.glob(following)))
                raise ZeroDivisionError("of something")
            self.applied += 1
            return engine.apply(arrivals, now, position)

    following = f"checkpoint/*/offsets/{at + 1}"
    with pytest.raises(PipelineError, match=rf"batch {at + 1}: ZeroDivisionError: of something"):
        run_pipeline(
            running.session,
            Failing(),
            [source],
            running.directory / "checkpoint",
            once=True,
            on_matches=running.matches.extend,
        )
    summary = running.run(source)
    assert summary.documents == 12 - 2 * at
    assert len(running.stored()) == 12
    assert len({m.id for m in running.matches}) == len(running.matches) == 6
