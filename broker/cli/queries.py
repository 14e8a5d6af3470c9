"""`broker check`, `broker explain` and `broker fmt`: commands on query files alone."""

from __future__ import annotations

from pathlib import Path

import click

import xscl
from broker.broker import Broker
from broker.cli.query_files import STDIN, query_files, read_queries
from broker.cli.shared import console, plural
from broker.explain import STAGES, with_prefixes
from broker.query.prepared import compile_query

_OF_NAMES = ("normal", "patterns")
"""The stages whose output has namespace names, which are replaced by the query's prefixes."""


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
    for query in program.queries:
        compile_query(query)
    for warning in program.warnings:
        console.print(warning.render(), markup=False)
    count = len(program.queries)
    console.print(f"{plural(count, 'query', 'queries')}, no errors")


@click.command()
@query_files
@click.option("--query", "only", metavar="ID", help="Explain this query alone.")
@click.option("--stage", type=click.Choice(list(STAGES)), help="Show this stage alone.")
def explain(queries: tuple[Path, ...], only: str | None, stage: str | None) -> None:
    """Show how queries are understood and run: syntax tree, normal form, tree patterns, template,
    and the conjunctive query in SQL. - stands for standard input."""
    files = read_queries(queries)
    program = xscl.check(files)
    ids = [query.id for query in program.queries]
    if only is not None and only not in ids:
        raise click.BadParameter(f"there is no query {only}; there are {', '.join(ids)}")
    with Broker() as broker:
        broker.subscribe_files(files)
        for query in program.queries:
            if only is not None and query.id != only:
                continue
            click.echo(f"-- {query.id}: {query.text}")
            compiled = compile_query(query)
            for name in [stage] if stage else STAGES:
                if stage is None:
                    click.echo(f"\n-- {name}")
                shown = STAGES[name](compiled, broker.engine.catalog)
                click.echo(with_prefixes(shown, compiled) if name in _OF_NAMES else shown)
            click.echo()


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
