"""`broker check`: what is wrong with query files, and what may not be meant so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

import xscl
from broker import advice
from broker.cli.query_files import query_files, read_queries
from broker.cli.shared import StateType, console, plural
from broker.price import MANY as DEAR
from broker.price import Price, Prices
from broker.query.prepared import Compiled, compile_query
from broker.text.units import format_size
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
@click.option(
    "--cost",
    is_flag=True,
    help="With --state or --url: how many candidates each query is expected to make in a day.",
)
def check(queries: tuple[Path, ...], state: Path | None, url: str | None, cost: bool) -> None:
    """Parse and validate query files; every error with its place, exit code 2 if there are any.

    - stands for standard input, here and wherever a command takes query files.

    \b
    broker check news.xscl
    broker check news.xscl --state broker-state
    echo "S//item[./title = 'Tide']" | broker check -
    """
    if cost and state is None and url is None:
        raise click.UsageError("--cost goes by documents: give --state, or --url")
    files = read_queries(queries)
    program = xscl.check(files)
    told = [line for query in program.queries for line in _answers(query.id, compile_query(query))]
    with ExitStack() as stack:
        look: Look = lambda _: None  # noqa: E731
        if state is not None or url is not None:
            from broker.cli.remote.known_streams import known_streams, look_into, seen_in

            streams = stack.enter_context(known_streams(url, state, None))
            look = look_into(streams)
            if cost:
                prices = Prices(partial(seen_in, streams))
                told += [_cost(query.id, compile_query(query), prices) for query in program.queries]
        found = advice.warnings(program, look)
    for warning in found:
        console.print(warning.render())
    for line in told:
        console.print(line)
    count = len(program.queries)
    console.print(f"{plural(count, 'query', 'queries')}, no errors")


def _cost(name: str, query: Compiled, prices: Prices) -> str:
    """What a query is expected to cost, in a sentence."""
    if query.shape.is_pattern:
        return f"{name}: an event pattern; what it may cost is said above"
    found = prices.of(query)
    if found is None:
        return f"{name}: no documents of its streams are stored, so its cost is not known"
    rates = " and ".join(_about(rate) for rate in found.documents)
    return (
        f"{name}: about {_about(found.candidates)} candidates a day, from {rates} documents;"
        f" {format_size(round(found.bytes))} of documents a day{_beyond(found)}"
    )


def _beyond(found: Price) -> str:
    """What may be wrong with a query that costs so much."""
    said = ""
    if found.grows:
        said = "; it has no window, so each day has more than the one before"
    if found.unjoined and len(found.documents) > 1:
        said += "; no value joins its blocks, so it grows with the square of the documents"
    elif found.candidates > DEAR:
        said += "; that is very much: what joins has too few different values for its window"
    return said


def _about(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _answers(name: str, query: Compiled) -> Iterator[str]:
    """When event patterns answer, and what they may cost: a query, and those in its FROM."""
    if (pattern := query.own_pattern) is not None:
        from broker.pattern.answers import answers
        from broker.pattern.growth import growth

        yield f"{name} answers {answers(pattern.plan)}"
        yield f"  {growth(pattern.plan)}"
    for inner in query.nested:
        yield from _answers(f"the query in the FROM of {name}", inner)
