"""The import arrows of the architecture page."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FORBIDDEN = {
    "xscl": {"broker", "feeds", "duckdb", "pyspark", "pyarrow", "feedparser", "httpx", "time"},
    "feeds": {"broker", "xscl", "duckdb"},
    "broker": {"tests", "bench"},
}


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_arrows(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        for name in imports(file)
        if name.split(".")[0] in FORBIDDEN[package]
    ]
    assert not wrong


def test_only_the_spark_package_imports_spark_in_broker() -> None:
    """The library must work, and start fast, without Spark."""
    wrong = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "broker").rglob("*.py"))
        if "spark" not in file.parts
        and any(name.split(".")[0] == "pyspark" for name in imports(file))
    ]
    assert not wrong
