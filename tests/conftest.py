"""What all tests share: which of them take long, the order in which they run, and golden files.

`pytest --rewrite` renews golden files, and the diff is what there is to review.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from feeds import synced_file
from tests.java_cache import ensure_java_cache
from xscl.growth import collect_rarely

Golden = Callable[[Path, str], None]


# As in the background of a script, or under nohup; the commands that are interrupted here would
# inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

SLOW = (
    "bench/test_counts.py",
    "bench/test_memory.py",
    "bench/test_patterns.py",
    "bench/test_workload.py",
    "bombs/test_bombs.py",
    "cases/test_cases.py",
    "cli/test_channels.py",
    "cli/test_client.py",
    "cli/test_client_answers.py",
    "cli/test_client_patterns.py",
    "cli/test_client_stream.py",
    "cli/test_completion.py",
    "cli/test_config.py",
    "cli/test_imports.py",
    "cli/test_install.py",
    "cli/test_new.py",
    "cli/test_patience.py",
    "cli/test_progress.py",
    "cli/test_queries.py",
    "cli/test_replay.py",
    "cli/test_service.py",
    "cli/test_service_messages.py",
    "cli/test_streams.py",
    "cli/test_terminal.py",
    "cli/test_visible.py",
    "cli/test_ways.py",
    "cluster/test_faults.py",
    "cluster/test_files.py",
    "cluster/test_here.py",
    "cluster/test_lost.py",
    "cluster/test_patterns.py",
    "cluster/test_standalone.py",
    "cluster/test_variants.py",
    "conformance/",
    "crash/",
    "delivery/test_dropped_channels.py",
    "delivery/test_killed.py",
    "delivery/test_mail.py",
    "delivery/test_shared.py",
    "delivery/test_webhook",
    "delivery/test_worker.py",
    "disk/test_faults.py",
    "disk/test_service.py",
    "docs/test_constructs.py",
    "docs/test_examples.py",
    "docs/test_terminal.py",
    "engine/test_ahead.py",
    "engine/test_backfill.py",
    "engine/test_budgets.py",
    "engine/test_exact.py",
    "engine/test_failures.py",
    "engine/test_flowing_revisions.py",
    "engine/test_frozen.py",
    "engine/test_journaled_store.py",
    "engine/test_library.py",
    "engine/test_limits.py",
    "engine/test_paper.py",
    "engine/test_patterns_shared.py",
    "engine/test_paused.py",
    "engine/test_postings.py",
    "engine/test_registry.py",
    "engine/test_retention.py",
    "engine/test_shared_shapes.py",
    "engine/test_state.py",
    "engine/test_tokenize.py",
    "engine/test_variables.py",
    "engine/test_versions.py",
    "feeds/test_archive.py",
    "feeds/test_discovery.py",
    "feeds/test_fetch.py",
    "feeds/test_hostile.py",
    "feeds/test_killed.py",
    "feeds/test_real_feeds.py",
    "feeds/test_requested.py",
    "feeds/test_samples.py",
    "feeds/test_security.py",
    "feeds/test_spool_publish.py",
    "feeds/test_unpack.py",
    "feeds/test_websub",
    "in_order/",
    "language/test_comments.py",
    "language/test_fingerprints.py",
    "language/test_fuzz.py",
    "language/test_printer.py",
    "local/test_pipeline.py",
    "mutants/",
    "oracle/test_patterns.py",
    "oracle/test_publish.py",
    "properties/",
    "saxon/",
    "service/test_api",
    "service/test_bombs.py",
    "service/test_bulk.py",
    "service/test_changing_subscriptions.py",
    "service/test_copies.py",
    "service/test_disk.py",
    "service/test_metrics.py",
    "service/test_pipeline.py",
    "service/test_proof.py",
    "service/test_serve.py",
    "service/test_service.py",
    "service/test_token_changes.py",
    "service/test_tokens.py",
    "service/test_websub.py",
    "stage1/test_incremental.py",
    "stage1/test_matcher.py",
    "stage1/test_structures.py",
    "stage1/test_xpath.py",
    "states/test_states.py",
    "statistics/test_streams.py",
    "statistics/test_suggest.py",
    "test_architecture.py",
    "web/",
    "why/test_beside.py",
    "why/test_patterns.py",
    "witnesses/",
)
"""Where tests take seconds: they start processes, or go through very much."""
SPARK = ("cli/test_run.py", "cluster/test_standalone.py", "service/test_spark.py", "spark/")
"""Where Spark is started, which takes several seconds."""
LONGEST = "cluster/test_standalone.py"
"""Which starts a cluster and kills its parts one after another, for minutes, and waits for much of
the time."""

TOGETHER = ("tests/spark/", "tests/web/")
"""Folders whose files run in one process, as they share what takes seconds of a core to start: a
session of Spark; a browser, and a service with the sample feeds."""


class ByFolderOrFile(LoadFileScheduling):  # type: ignore[misc]
    """Keeps the tests of a file in one process, and those of some folders."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """The scheduler of `--dist loadfile`; None leaves other ways to xdist."""
    return ByFolderOrFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """While thousands of tests are collected nothing becomes garbage; and what is there then stays,
    so that no later search for garbage has to go through it. Later ones are as rare as in a
    service: what tests make is mostly gone without any."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
    collect_rarely()
    atexit.register(gc.unfreeze)  # else DuckDB's binding says at exit that all this has leaked


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow or needs Spark, and let it go first: else the last file of all might be one
    that takes a minute, while nothing else is left to do."""
    for item in items:
        for name in _marks(item.path):
            item.add_marker(name)
    items.sort(key=lambda item: -_weight(item))


@cache
def _marks(file: Path) -> list[str]:
    place = file.relative_to(Path(__file__).parent).as_posix()
    return [name for name, places in (("slow", SLOW), ("spark", SPARK)) if place.startswith(places)]


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """A command that ends within a test leaves handlers that end the process; the next test has
    those of before."""
    before = {number: signal.getsignal(number) for number in _HANDLED}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs of two documents are kept, too: a test of kept packs needs few documents then."""
    monkeypatch.setattr("feeds.packs.KEPT", 2)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark"):
        ensure_java_cache()


def _weight(item: pytest.Item) -> int:
    """3 for the longest file, 2 for the slow ones, 1 for those that start Spark, which come when
    Java's cache is there; the order within is kept."""
    if item.path.as_posix().endswith(LONGEST):
        return 3
    marks = {mark.name for mark in item.iter_markers()}
    return 1 if "spark" in marks else 2 * ("slow" in marks)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write golden files anew instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(path, text)` asserts that the file holds the text, or with --rewrite makes it so."""
    rewrite = request.config.getoption("--rewrite")

    def compare(path: Path, text: str) -> None:
        if rewrite:
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing: run pytest --rewrite and read what it wrote"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def plain_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of records are as long as what they hold, and are written through the system's cache,
    as on disks with little room and on systems that cannot do without it."""
    monkeypatch.setattr(os, "O_DIRECT", 0, raising=False)
    monkeypatch.setattr(synced_file, "_ROOM", 2**62)
