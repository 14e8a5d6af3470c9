"""`broker explain`: what queries find, and how they are understood and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

import xscl
from broker.broker import Broker
from broker.cli.query_files import query_files, read_queries, require_queries
from broker.cli.remote.drawing import pattern_picture
from broker.cli.remote.options import service_options
from broker.cli.remote.why import asked_of, lines
from broker.cluster.explaining import shards_stage
from broker.explain import STAGES, ast_stage, with_prefixes
from broker.explain_pattern import pattern_stage
from broker.planner import DEFAULT, METHODS, Method
from broker.query.catalog import Catalog
from broker.query.prepared import Compiled, compile_query
from broker.text.printable import visible
from broker.why.asked import Asked
from broker.why.model import Budget
from broker.why.picture import picture
from xscl.check.patterns import holds_pattern

_OF_NAMES = ("normal", "patterns")
"""The stages whose output has namespace names, which are replaced by the query's prefixes."""

PATTERN_STAGES: dict[str, Callable[[Compiled, Catalog], str]] = {
    "ast": ast_stage,
    "pattern": pattern_stage,
}
"""Those of event patterns."""

SHARDS = "shards"
"""What is said of any query, only if it is asked for: how a cluster divides it."""

_NAMES = [*(STAGES | PATTERN_STAGES), SHARDS]


@click.command()
@query_files
@click.option("--query", "only", metavar="ID", help="Explain this query alone.")
@click.option("--stage", type=click.Choice(_NAMES), help="Show this stage of compilation alone.")
@click.option("--all", "every", is_flag=True, help="Show all stages of compilation.")
@click.option(
    "--planner",
    type=click.Choice(METHODS),
    default=DEFAULT,
    show_default=True,
    help="Plan event patterns by this method, where no stored documents are asked.",
)
@service_options
def explain(
    queries: tuple[Path, ...],
    only: str | None,
    stage: str | None,
    every: bool,
    planner: Method,
    url: str | None,
    state: Path | None,
    token_file: Path | None,
) -> None:
    """Show what queries find: a sentence, and a picture of their blocks and joins; with --state or
    --url also how many stored documents pass each, as broker why counts them.

    --all shows how they are understood and run: syntax tree, normal form, tree patterns, template,
    and the conjunctive query in SQL; of an event pattern when it answers, what stands where, and
    how its documents are found. --stage shows one of these. - stands for standard input.
    """
    files = read_queries(queries)
    program = xscl.check(files)
    ids = [query.id for query in program.queries]
    require_queries(program.queries)
    if only is not None and only not in ids:
        raise click.BadParameter(f"there is no query {only}; there are {', '.join(ids)}")
    chosen = [query for query in program.queries if only is None or query.id == only]
    if not (stage or every):
        known = [f for f in files if f.statements]
        for line in _for_people(known, chosen, planner, url, state, token_file):
            click.echo(visible(line))
        return
    with Broker() as broker:
        broker.subscribe_files(files)
        for query in chosen:
            click.echo(f"-- {query.id}: {query.text}")
            _stages(broker, compile_query(query), stage, planner)
            click.echo()


def _for_people(
    files: Sequence[xscl.ast.File],
    chosen: list[xscl.ResolvedQuery],
    planner: Method,
    url: str | None,
    state: Path | None,
    token_file: Path | None,
) -> Iterator[str]:
    counted: dict[str, list[str]] = {}
    if url is not None or state is not None:
        with asked_of(url, state, token_file) as asked:
            for file in files:
                source = file.statements[0].span.source
                for told in asked.of_text(source.text, source.name, Budget().documents):
                    counted[told["query"]] = [*lines(told), *told.get("plans", ())]
    for number, query in enumerate(chosen):
        if number:
            yield ""
        if not holds_pattern(query.query):
            shown = picture(Asked(query))
            yield from shown[:1] if query.id in counted else shown
        else:
            pattern = compile_query(query)
            yield from pattern_picture(query)
            yield from pattern_stage(pattern, planner=planner).splitlines()
        yield from counted.get(query.id, [])


def _stages(broker: Broker, compiled: Compiled, stage: str | None, planner: Method) -> None:
    if stage == SHARDS:
        click.echo(with_prefixes(shards_stage(compiled, broker.engine.catalog), compiled))
        return
    stages = STAGES if compiled.pattern is None else PATTERN_STAGES
    if stage is not None and stage not in stages:
        raise click.BadParameter(f"of {compiled.id} there are: {', '.join(stages)}")
    for name in [stage] if stage else stages:
        if stage is None:
            click.echo(f"\n-- {name}")
        if name == "pattern":
            shown = pattern_stage(compiled, broker.engine.catalog, planner)
        else:
            shown = stages[name](compiled, broker.engine.catalog)
        click.echo(with_prefixes(shown, compiled) if name in _OF_NAMES else shown)
