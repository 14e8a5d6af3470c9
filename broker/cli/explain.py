"""`broker explain`: how queries are understood and run."""

from __future__ import annotations

from pathlib import Path

import click

import xscl
from broker.broker import Broker
from broker.cli.query_files import query_files, read_queries
from broker.explain import STAGES, ast_stage, with_prefixes
from broker.explain_pattern import pattern_stage
from broker.query.prepared import compile_query

_OF_NAMES = ("normal", "patterns")
"""The stages whose output has namespace names, which are replaced by the query's prefixes."""

PATTERN_STAGES = {"ast": ast_stage, "pattern": pattern_stage}
"""Those of event patterns."""

_NAMES = list(STAGES | PATTERN_STAGES)


@click.command()
@query_files
@click.option("--query", "only", metavar="ID", help="Explain this query alone.")
@click.option("--stage", type=click.Choice(_NAMES), help="Show this stage alone.")
def explain(queries: tuple[Path, ...], only: str | None, stage: str | None) -> None:
    """Show how queries are understood and run: syntax tree, normal form, tree patterns, template,
    and the conjunctive query in SQL; of an event pattern when it answers, what stands where, and
    how its documents are found. - stands for standard input."""
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
            stages = STAGES if compiled.pattern is None else PATTERN_STAGES
            if stage is not None and stage not in stages:
                raise click.BadParameter(f"of {query.id} there are: {', '.join(stages)}")
            for name in [stage] if stage else stages:
                if stage is None:
                    click.echo(f"\n-- {name}")
                shown = stages[name](compiled, broker.engine.catalog)
                click.echo(with_prefixes(shown, compiled) if name in _OF_NAMES else shown)
            click.echo()
