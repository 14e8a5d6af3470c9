"""Commands do not import slow libraries that they do not need: each of these takes longer to import
than `broker check` takes in all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.cli.commands import cli

HEAVY = frozenset(
    [
        *("pyspark", "py4j", "duckdb", "pyarrow", "numpy", "pandas", "lxml", "feedparser"),
        *("rich", "httpx", "httpcore", "fastapi", "starlette", "uvicorn", "pydantic"),
        *("aiosmtplib", "structlog", "prometheus_client", "saxonche", "elementpath"),
    ]
)

_RUN = """
import json, sys
from broker.cli import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=open(sys.argv[-1], "w"))
"""
"""A run of the command, and then the modules it has imported go to a file."""


def imported(tmp_path: Path, *arguments: str) -> set[str]:
    """The packages of others that a command has imported when it is done."""
    into = tmp_path / "modules.json"
    program = _RUN.replace("sys.argv[-1]", repr(str(into)))
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert into.exists(), result.stderr
    return {name.split(".")[0] for name in json.loads(into.read_text(encoding="utf-8"))}


@pytest.fixture
def query(tmp_path: Path) -> str:
    path = tmp_path / "tides.xscl"
    path.write_text(
        "tides: S//item->a[./title = 'Tide'][./link->l]"
        " FOLLOWED BY {l = m, 1 day} S//item->b[./link->m];\n"
        "turn: S//item->a[./title = 'Ebb'] FOLLOWED BY NOT S//item->b[./title = 'Flood'] WITHIN 1 day;\n",
        encoding="utf-8",
    )
    return str(path)


def test_queries_are_checked_and_formatted_without_heavy_libraries(
    tmp_path: Path, query: str
) -> None:
    assert CliRunner().invoke(cli, ["check", query]).exit_code == 0
    assert not imported(tmp_path, "check", query) & HEAVY
    assert not imported(tmp_path, "fmt", query) & HEAVY


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["list"], ["matches"], ["tail"], ["subscribe"], ["unsubscribe"], ["publish"]),
        *(["status"], ["events"], ["channels"], ["deadletters"], ["backup"], ["completion"]),
        *(["check"], ["fmt"], ["serve"], ["config"]),
    ],
    ids=" ".join,
)
def test_help_needs_no_heavy_library(tmp_path: Path, arguments: list[str]) -> None:
    assert not imported(tmp_path, *arguments, "--help") & HEAVY


@pytest.mark.parametrize("command", ["run", "replay", "demo", "feeds"])
def test_help_of_the_heavier_commands_starts_no_engine(tmp_path: Path, command: str) -> None:
    engine = {"pyspark", "duckdb", "fastapi", "uvicorn", "pydantic"}
    assert not imported(tmp_path, command, "--help") & engine


@pytest.mark.parametrize("arguments", [["list"], ["matches"], ["status"]], ids=" ".join)
def test_a_service_that_is_not_there_is_missed_without_a_client(
    tmp_path: Path, arguments: list[str]
) -> None:
    assert not imported(tmp_path, *arguments, "--state", str(tmp_path / "none")) & HEAVY
