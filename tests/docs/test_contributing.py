"""The files and names in CONTRIBUTING.md exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.feeds.data import ROOT
from tests.long import RUNS

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"(?m)^\| (Where .*?) \| (.*) \|$", PAGE)
PATHS = sorted(
    {path for path in re.findall(r"`([\w./-]+)`", PAGE) if "/" in path or path.endswith(".md")}
    | set(re.findall(r"\]\(([\w./-]+)\)", PAGE))
    | set(re.findall(r"pytest (tests/[\w./-]+)", PAGE))
)


def test_it_answers_where_things_are() -> None:
    assert len(QUESTIONS) >= 12
    assert not [question for question, answer in QUESTIONS if not re.search(r"`[\w./-]+/", answer)]


@pytest.mark.parametrize("path", PATHS)
def test_what_it_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_modules_that_it_runs_are_there() -> None:
    for module in re.findall(r"python -m ([\w.]+)", PAGE):
        place = ROOT / Path(*module.split("."))
        found = place.with_suffix(".py").exists() or (place / "__main__.py").exists()
        assert found or module == "pytest", module


def test_every_long_run_is_a_module_with_the_option_that_it_is_given() -> None:
    for run in RUNS.values():
        text = (ROOT / Path(*run.module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
        # Those of random cases take their options from one place.
        text += (ROOT / "tests" / "deep.py").read_text(encoding="utf-8")
        assert f'"{run.option}"' in text, run.module
