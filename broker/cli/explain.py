"""`broker explain`: how queries are understood and run."""

from __future__ import annotations

from pathlib import Path

import click

import xscl
from broker.broker import Broker
from broker.cli.query_files import query_files, read_queries
from broker.explain import STAGES, with_prefixes
from broker.query.prepared import compile_query

_OF_NAMES = ("normal", "patterns")
"""The stages whose output has namespace names, which are replaced by the query's prefixes."""


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
