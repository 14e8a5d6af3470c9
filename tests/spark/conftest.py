"""One Spark session for all tests of this directory: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker import Broker, Match
from broker.runs import Progress, Summary
from broker.spark.pipeline import run_pipeline
from broker.spark.session import start_session, stop_session
from broker.spark.sources import Source

PAIR = """
    pair: S//book->x1[./author->x2][./title->x3]
    FOLLOWED BY {x2=x5 AND x3=x6, 100 days}
    S//blog->x4[./author->x5][./title->x6]
"""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session("local[2,4]", state_dir=tmp_path_factory.mktemp("spark"))
    yield session
    stop_session(session)


@dataclass
class Running:
    """A broker with a state directory, and what came out of its pipeline."""

    session: SparkSession
    directory: Path
    broker: Broker
    matches: list[Match] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    def run(self, *sources: Source) -> Summary:
        return run_pipeline(
            self.session,
            self.broker.engine,
            sources,
            self.directory / "checkpoint",
            once=True,
            on_matches=self.matches.extend,
            on_progress=self.progress.append,
        )

    def stored(self) -> dict[str, int]:
        """Ids of the documents that are stored, with their times in seconds."""
        rows: Sequence[tuple[str, int]] = self.broker.engine.store.rows(
            'SELECT id, "start" FROM documents'
        )
        return {id: time // 1_000_000 for id, time in rows}

    def reasons(self) -> dict[str, str]:
        """Dead letters: place to reason."""
        return {letter.place: letter.reason for letter in self.broker.dead_letters()}


@pytest.fixture
def running(spark: SparkSession, tmp_path: Path) -> Iterator[Running]:
    with Broker(tmp_path / "state") as broker:
        broker.subscribe(PAIR)
        yield Running(spark, tmp_path / "state", broker)


def book(n: int, time: int | str) -> str:
    return f"<book><author>Ann {n}</author><title>Knots {n}</title><date>{time}</date></book>"


def blog(n: int, time: int | str) -> str:
    return f"<blog><author>Ann {n}</author><title>Knots {n}</title><date>{time}</date></blog>"


Write = Callable[[str, str], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.mkdir()
    return path
