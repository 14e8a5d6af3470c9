"""Golden files: `pytest --rewrite` renews them, and the diff is what there is to review."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[Path, str], None]


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in the background of a script; the commands that are interrupted here would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
