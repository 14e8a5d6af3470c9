"""Query files of a command line: paths, or `-` for standard input.

In: the paths. Out: syntax trees, or every syntax error of all files.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

import xscl
from broker.cli.progress import Counted, Work
from broker.cli.shared import Failed, Wrong, console
from xscl.errors import Source, Span

MANY = 1_000
"""The number of queries from which on progress is shown."""
STDIN = Path("-")
"""Standard input, in the place of a file."""
_NAME = "<stdin>"
_LOOK = 0.5
"""Seconds between two looks for signals while somebody types."""


class _QueryPath(click.Path):
    """An existing file, or `-`, which may be given once."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, allow_dash=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if path == STDIN and ctx is not None:
            if ctx.meta.get(_NAME):
                self.fail("- is standard input, and is read once", param, ctx)
            ctx.meta[_NAME] = True
        return path


QUERY_PATH = _QueryPath()
query_files = click.argument("queries", nargs=-1, required=True, type=QUERY_PATH)


def read_queries(paths: Iterable[Path]) -> list[xscl.ast.File]:
    """Parse query files. Raises XsclError with all syntax errors of all files."""
    files: list[xscl.ast.File] = []
    problems: list[xscl.Diagnostic] = []
    for path in paths:
        try:
            files.append(read_text(path)[1])
        except xscl.XsclError as error:
            problems += error.diagnostics
    if problems:
        raise xscl.XsclError(problems)
    return files


def read_text(path: Path) -> tuple[str, xscl.ast.File]:
    """The text of a query file, and its queries. Raises XsclError."""
    name = _NAME if path == STDIN else str(path)
    try:
        text = _decode(_read(path), name)
    except OSError as error:
        raise Failed(f"{name}: {error.strerror}") from None
    return text, _parse(text, name)


def _parse(text: str, name: str) -> xscl.ast.File:
    if text.count(";") < MANY:
        return xscl.parse(text, name)
    with Work("query", many="queries", total=len(text), parts=True, note="read") as work:
        counted = Counted(work)
        file = xscl.parse(text, name, lambda statement: counted.upto(statement.span.end))
        counted.done()
    return file


def require_queries(queries: Sequence[xscl.ResolvedQuery]) -> None:
    """Raises Wrong where there is none in the files."""
    if not queries:
        raise Wrong("the query files hold no query")


def check_queries(files: Sequence[xscl.ast.File]) -> xscl.Program:
    """Check the queries of all files. Raises XsclError with all static errors."""
    count = sum(len(file.statements) for file in files)
    if count < MANY:
        return xscl.check(files)
    with Work("query", many="queries", total=count, note="checked") as work:
        counted = Counted(work)
        program = xscl.check(files, lambda statement: counted.one())
        counted.done()
    return program


def _read(path: Path) -> bytes:
    if path != STDIN:
        return path.read_bytes()
    if not sys.stdin.isatty():
        return sys.stdin.buffer.read()
    console.print("type or paste queries; Ctrl-D on a line of its own ends them")
    return b"".join(iter(_typed, b""))


def _typed() -> bytes:
    """What was typed next; nothing at the end."""
    # A signal that comes when Python has just looked for one, and does not read yet, would wait for
    # the next line.
    while not select.select([sys.stdin], [], [], _LOOK)[0]:
        pass
    return os.read(sys.stdin.fileno(), 65_536)


def _decode(data: bytes, name: str) -> str:
    """The text of a query file. Raises XsclError at the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        shown = data.decode("utf-8", errors="replace")
        at = len(data[: error.start].decode("utf-8"))
        wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))  # as PowerShell writes
        raise xscl.XsclError(
            xscl.Diagnostic(
                "encoding",
                f"byte {error.start + 1} (0x{data[error.start]:02x}) is not UTF-8",
                Span(Source(name, shown), at, at + 1),
                "save the file as UTF-8, or convert it: iconv -f "
                f"{'utf-16' if wide else 'latin1'} -t utf-8",
            )
        ) from None
