"""`broker check` and `broker fmt`: commands on query files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

import xscl
from broker import advice
from broker.cli.query_files import STDIN, query_files, read_queries
from broker.cli.shared import console, plural
from broker.pattern.answers import answers
from broker.pattern.growth import growth
from broker.query.prepared import Compiled, compile_query


@click.command()
@query_files
def check(queries: tuple[Path, ...]) -> None:
    """Parse and validate query files; every error with its place, exit code 2 if there are any.

    - stands for standard input, here and wherever a command takes query files.

    \b
    broker check news.xscl
    echo "S//item[./title = 'Tide']" | broker check -
    """
    files = read_queries(queries)
    program = xscl.check(files)
    told = [line for query in program.queries for line in _answers(query.id, compile_query(query))]
    for warning in advice.warnings(program):
        console.print(warning.render())
    for line in told:
        console.print(line)
    count = len(program.queries)
    console.print(f"{plural(count, 'query', 'queries')}, no errors")


def _answers(name: str, query: Compiled) -> Iterator[str]:
    """When event patterns answer, and what they may cost: a query, and those in its FROM."""
    if query.pattern is not None:
        yield f"{name} answers {answers(query.pattern.plan)}"
        yield f"  {growth(query.pattern.plan)}"
    for inner in query.nested:
        yield from _answers(f"the query in the FROM of {name}", inner)


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
