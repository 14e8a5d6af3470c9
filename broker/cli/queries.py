"""`broker fmt`: query files in canonical form."""

from __future__ import annotations

from pathlib import Path

import click

import xscl
from broker.cli.query_files import STDIN, query_files, read_queries


@click.command()
@query_files
@click.option("--write", "-w", is_flag=True, help="Rewrite the files in place.")
def fmt(queries: tuple[Path, ...], write: bool) -> None:
    """Print query files in canonical form, with their comments. - stands for standard input."""
    if write and STDIN in queries:
        raise click.UsageError("--write rewrites files, and standard input (-) is none")
    for path, file in zip(queries, read_queries(queries), strict=True):
        text = xscl.format_with_comments(file)
        if write:
            path.write_text(text, encoding="utf-8")
        else:
            click.echo(text, nl=False)
