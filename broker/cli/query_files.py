"""Query files as commands take them: paths, or `-` for what comes through standard input.

In go the paths of a command line; out come syntax trees, or every syntax error of all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

import xscl
from broker.cli.shared import Failed, console
from xscl.errors import Source, Span

STDIN = Path("-")
"""Standard input, in the place of a file."""
_NAME = "<stdin>"


class _QueryPath(click.Path):
    """A file that is there, or `-`, once."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, allow_dash=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if found == STDIN and ctx is not None:
            if ctx.meta.get(_NAME):
                self.fail("- is standard input, and is read once", param, ctx)
            ctx.meta[_NAME] = True
        return found


QUERY_PATH = _QueryPath()
query_files = click.argument("queries", nargs=-1, required=True, type=QUERY_PATH)


def read_queries(paths: Iterable[Path]) -> list[xscl.ast.File]:
    """Parse query files; all syntax errors of all files at once."""
    files: list[xscl.ast.File] = []
    problems: list[xscl.Diagnostic] = []
    for path in paths:
        name = _NAME if path == STDIN else str(path)
        try:
            files.append(xscl.parse(_decoded(_read(path), name), name))
        except OSError as error:
            raise Failed(f"{name}: {error.strerror}") from None
        except xscl.XsclError as error:
            problems += error.diagnostics
    if problems:
        raise xscl.XsclError(problems)
    return files


def _read(path: Path) -> bytes:
    if path != STDIN:
        return path.read_bytes()
    if sys.stdin.isatty():
        console.print("type or paste queries; Ctrl-D on a line of its own ends them")
    return sys.stdin.buffer.read()


def _decoded(data: bytes, name: str) -> str:
    """The text of a query file. Raises XsclError at the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        shown = data.decode("utf-8", errors="replace")
        at = len(data[: error.start].decode("utf-8"))
        raise xscl.XsclError(
            xscl.Diagnostic(
                "encoding",
                f"byte {error.start + 1} (0x{data[error.start]:02x}) is not UTF-8",
                Span(Source(name, shown), at, at + 1),
                "save the file as UTF-8, or convert it: iconv -f latin1 -t utf-8",
            )
        ) from None
