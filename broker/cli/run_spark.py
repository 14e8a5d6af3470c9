"""A run through Spark, for the commands: its session, its sources, and what its failures say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.places import Place, XmlOptions
from broker.cli.progress import stage
from broker.cli.sharding import Sharding
from broker.cli.shared import Failed, console, listed, plural
from broker.runs import PipelineError, Run
from broker.spark.gateway import JavaError
from broker.spark.pipeline import run_pipeline
from broker.spark.session import start_session, stop_session
from broker.spark.sources import Source, json_source, xml_source
from broker.text.formats import ReaderGone
from feeds.source import FeedSpool

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.spark.session import Session


@contextmanager
def through_spark(
    broker: Broker,
    directory: Path,
    read: Sequence[Place],
    xml: XmlOptions,
    spool: Path | None,
    *,
    master: str | None,
    keep: bool,
    sharding: Sharding,
) -> Iterator[Run]:
    """A function that runs the pipeline. Raises Failed; `keep`: the directory stays, so that the
    message may name its log."""
    session = None
    try:
        with stage("starting Spark"):
            session = start_session(master, conf=sharding.conf, state_dir=directory)
        sharding.begin(session, broker.engine)
        sources = [_source(session, place, xml) for place in read]
        if spool is not None:
            session.dataSource.register(FeedSpool)
            path = str(spool.absolute())
            frame = session.readStream.format("feed_spool").option("path", path).load()
            sources.append(Source(f"feeds {path}", frame))
        yield partial(
            run_pipeline,
            session,
            broker.engine,
            sources,
            directory / "checkpoint",
            hand_over=broker.engine.hand_over,
        )
    except (ValueError, FileNotFoundError, JavaError) as error:
        raise Failed(str(error)) from None
    except PipelineError as error:
        if isinstance(error.__cause__, ReaderGone | Failed):
            raise error.__cause__ from None
        log = f" (Spark's log: {directory / 'spark.log'})" if keep else ""
        raise Failed(f"{error}{log}") from error.__cause__
    finally:
        if session is not None:
            sharding.end(broker.engine)
            stop_session(session)


def _source(session: Session, place: Place, xml: XmlOptions) -> Source:
    if place.lines:
        return json_source(session, place.path)
    _tell_of_empty(place.path)
    return xml_source(
        session, place.path, streams=(xml.stream,), timestamp=xml.timestamp, split=xml.split
    )


def _tell_of_empty(path: Path) -> None:
    """Name the files of which Spark reads nothing, where others would be kept aside."""
    files = path.rglob("*.xml") if path.is_dir() else [path]
    empty: list[str] = []
    for file in files:
        with suppress(OSError):  # one that has gone meanwhile, or may not be looked at
            if file.stat().st_size == 0:
                empty.append(str(file))
    if empty:
        passed = plural(len(empty), "empty file")
        console.print(f"Spark passes over {passed}: {listed(sorted(empty))}")
