"""For pytest, as `-p tests.mutants.plugin`: which tests execute which lines, and tests in a given order.

With `MUTANTS_MAP` in the environment, a folder, each process of pytest writes there what its tests
executed, by coverage.py with one context for each test, and how long each took. With `MUTANTS_ORDER`,
a file with a test in each line, tests run in that order, and do not wait long for a condition.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from tests import waiting
from tests.mutants.operators import PACKAGES

MAP = os.environ.get("MUTANTS_MAP")
ORDER = os.environ.get("MUTANTS_ORDER")


PATIENCE = 20.0
"""Seconds that a test waits for what a mutant may have made impossible."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if ORDER is not None:
        names = Path(ORDER).read_text(encoding="utf-8").splitlines()
        place = {name: number for number, name in enumerate(names)}
        items.sort(key=lambda item: place.get(item.nodeid, len(place)))


class Recorder:
    """What each test of this process executed and how long it took, all three phases of it."""

    def __init__(self, folder: Path) -> None:
        self._base = folder / f"{os.getpid()}"
        self._coverage = coverage.Coverage(
            data_file=f"{self._base}.coverage",
            config_file=False,
            include=[f"{package}/*" for package in PACKAGES],
            messages=False,
        )
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("between tests")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if not report.passed:
            self._failed.add(name)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        passed = {name: time for name, time in self._seconds.items() if name not in self._failed}
        Path(f"{self._base}.json").write_text(json.dumps(passed), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    distributes = bool(config.getoption("numprocesses", None)) and not hasattr(
        config, "workerinput"
    )
    if ORDER is not None:
        waiting.PATIENCE = PATIENCE
    if MAP is not None and not distributes:
        config.pluginmanager.register(Recorder(Path(MAP)), "mutants-recorder")
