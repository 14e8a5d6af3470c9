"""`broker check`: what is wrong with query files, and what may not be meant so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click

import xscl
from broker import advice
from broker.cli.query_files import query_files, read_queries
from broker.cli.shared import StateType, console, plural
from broker.pattern.answers import answers
from broker.pattern.growth import growth
from broker.query.prepared import Compiled, compile_query
from xscl.check.known import Look


@click.command()
@query_files
@click.option(
    "--state",
    type=StateType(),
    help="State directory, of a service or of broker run: also say which paths none of its"
    " documents has.",
)
@click.option("--url", help="The same for the service at this address.")
def check(queries: tuple[Path, ...], state: Path | None, url: str | None) -> None:
    """Parse and validate query files; every error with its place, exit code 2 if there are any.

    - stands for standard input, here and wherever a command takes query files.

    \b
    broker check news.xscl
    broker check news.xscl --state broker-state
    echo "S//item[./title = 'Tide']" | broker check -
    """
    files = read_queries(queries)
    program = xscl.check(files)
    told = [line for query in program.queries for line in _answers(query.id, compile_query(query))]
    with ExitStack() as stack:
        look: Look = lambda _: None  # noqa: E731
        if state is not None or url is not None:
            from broker.cli.remote.known_streams import known_streams, look_into

            look = look_into(stack.enter_context(known_streams(url, state, None)))
        found = advice.warnings(program, look)
    for warning in found:
        console.print(warning.render())
    for line in told:
        console.print(line)
    count = len(program.queries)
    console.print(f"{plural(count, 'query', 'queries')}, no errors")


def _answers(name: str, query: Compiled) -> Iterator[str]:
    """When event patterns answer, and what they may cost: a query, and those in its FROM."""
    if (pattern := query.own_pattern) is not None:
        yield f"{name} answers {answers(pattern.plan)}"
        yield f"  {growth(pattern.plan)}"
    for inner in query.nested:
        yield from _answers(f"the query in the FROM of {name}", inner)
