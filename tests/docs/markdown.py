"""The parts of a Markdown page that can be run: fenced blocks and tables, with their places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"```(\w*)(?: +(.+?))? *")
_CODE = re.compile(r"`` (.+?) ``|`([^`]+)`")


@dataclass(frozen=True)
class Heading:
    text: str
    line: int


@dataclass(frozen=True)
class Fence:
    """A fenced block: its language, the rest of its first line, and its text."""

    language: str
    note: str
    text: str
    line: int


@dataclass(frozen=True)
class Table:
    """`header` and `rows` hold the cells as written, without the bars."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int


Part = Heading | Fence | Table


def parts(page: Path) -> list[Part]:
    return list(_parts(page.read_text(encoding="utf-8").split("\n")))


def _parts(lines: list[str]) -> Iterator[Part]:
    at = 0
    while at < len(lines):
        line, start = lines[at], at + 1
        at += 1
        if found := _FENCE.fullmatch(line):
            body = []
            while lines[at] != "```":
                body.append(lines[at])
                at += 1
            at += 1
            yield Fence(found[1], found[2] or "", "\n".join(body) + "\n", start)
        elif line.startswith("#"):
            yield Heading(line.lstrip("# "), start)
        elif line.startswith("|"):
            rows = [_cells(line)]
            while at < len(lines) and lines[at].startswith("|"):
                rows.append(_cells(lines[at]))
                at += 1
            yield Table(rows[0], tuple(rows[2:]), start)


def _cells(line: str) -> tuple[str, ...]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return tuple(c.strip().replace(r"\|", "|") for c in re.split(r"(?<!\\)\|", inner))


def codes(cell: str) -> list[str]:
    """The pieces of code in a cell."""
    return [found[1] or found[2] for found in _CODE.finditer(cell)]


def code(cell: str) -> str:
    """The one piece of code in a cell."""
    (only,) = codes(cell)
    return only


def tables(page: Path, *header: str) -> list[Table]:
    """The tables of a page with this header."""
    return [p for p in parts(page) if isinstance(p, Table) and p.header == header]


def section(page: Path, heading: str) -> list[Part]:
    """What stands under a heading, up to the next one."""
    inside = False
    found: list[Part] = []
    for part in parts(page):
        if isinstance(part, Heading):
            inside = part.text == heading
        elif inside:
            found.append(part)
    assert found, f"{page.name} has nothing under {heading}"
    return found
