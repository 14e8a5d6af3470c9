"""The tests that matter where modules are compiled, with these modules compiled.

    python -m tests --compiled [pytest arguments]

Builds a copy of the project in a temporary directory (about a minute of CPU time), as
`BROKER_COMPILE=1` does where it is installed, and runs the tests of stage 1, the engine,
the cases, the random ones, and those of deliveries and of kept states there, or those that the
arguments name. Needs a C compiler.
"""

from __future__ import annotations

import ast
import importlib.machinery
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
TESTS = (
    "tests/stage1",
    "tests/engine",
    "tests/cases",
    "tests/properties",
    "tests/local",
    "tests/in_order",
    "tests/delivery",
    "tests/states",
)
REPLACING = (
    "tests/engine/test_limits.py::test_no_result_is_built_of_what_is_not_published",
    "tests/engine/test_limits.py::test_the_search_ends_soon_after_the_limit",
    "tests/engine/test_shared.py::test_what_a_query_constructs_is_made_once_for_all",
    "tests/properties/test_hard.py::test_the_cases_take_every_way_often",
    "tests/properties/test_long.py::test_the_cases_take_every_way_often",
    "tests/properties/test_published.py::test_a_match_is_derived_as_the_plain_way_makes_it",
)
"""Tests that replace methods or functions, which native ones cannot be."""
_NO_SOURCE = ("*.so", ".*", "build", "dist", "__pycache__", "*.egg-info")


def compiled_modules() -> list[str]:
    """The files that setup.py compiles."""
    for statement in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="COMPILED")], value=value):
                return [str(file) for file in ast.literal_eval(value)]
    raise LookupError("COMPILED in setup.py")


def build(to: Path) -> None:
    """A compiled copy of the project. Raises RuntimeError where a module was not compiled."""
    shutil.copytree(ROOT, to, ignore=shutil.ignore_patterns(*_NO_SOURCE))
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=to,
        env={**os.environ, "BROKER_COMPILE": "1"},
        check=True,
    )
    missing = [file for file in compiled_modules() if not (to / file).with_suffix(SUFFIX).is_file()]
    if missing:
        raise RuntimeError(f"not compiled: {', '.join(missing)}")


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="compiled-") as directory:
        copy = Path(directory) / "project"
        build(copy)
        left_out = [part for test in REPLACING for part in ("--deselect", test)]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *(arguments or TESTS), *left_out],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            check=False,
        ).returncode
