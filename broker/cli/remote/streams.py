"""`broker streams` and `broker suggest`: what is known of the streams, and what joins in them."""

from __future__ import annotations

from typing import Any

import click

from broker.cli.remote.known_streams import KnownStreams, with_streams
from broker.cli.shared import Failed, console, listed, plural
from broker.cli.tables import csv_table, echo_json, format_option, moment, table
from broker.text.printable import visible, visible_lines
from xscl.syntax.nearest import did_you_mean


@click.command()
@click.argument("name", required=False)
@format_option
@click.option(
    "--values",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="How many values of each path are shown, the most frequent ones.",
)
@with_streams
def streams(streams: KnownStreams, name: str | None, form: str, values: int) -> None:
    """Show the streams, or which paths the documents of stream NAME have.

    The number of documents that have a path is exact, and that of attributes too while there are
    few documents; ~ marks those that are estimated from a sample. Values come from a sample.

    \b
    broker streams
    broker streams S
    broker streams S --values 10
    """
    if name is None:
        _list(streams.all(), form)
        return
    found = streams.get(name, values)
    if found is None:
        raise _missing(name, streams.all())
    if form == "jsonl":
        echo_json(found)
    elif form == "csv":
        csv_table(["path", "documents", "exact", "nodes", "distinct"], found["paths"])
    else:
        _show(found)


def _missing(name: str, found: list[dict[str, Any]]) -> Failed:
    names = [each["name"] for each in found]
    near = did_you_mean(name, names)
    there = f"there are: {', '.join(names)}" if names else "no stream has any yet"
    return Failed(f"no document of {name} is stored; {near or there}")


def _list(found: list[dict[str, Any]], form: str) -> None:
    columns = ["name", "documents", "known", "since", "until"]
    if form == "jsonl":
        for each in found:
            echo_json({column: each[column] for column in columns})
    elif form == "csv":
        csv_table(columns, found)
    elif not found:
        console.print("no documents are stored yet: streams are known by their documents")
    else:
        rows = [(e["name"], e["documents"], moment(e["since"]), moment(e["until"])) for e in found]
        table(["stream", "documents", "since", "until"], rows)


def _show(found: dict[str, Any]) -> None:
    documents = plural(found["documents"], "document")
    times = f"{moment(found['since'])} to {moment(found['until'])}"
    click.echo(f"{found['name']}: {documents}, {times}, {found['per_day']:,.0f} a day")
    rows = [
        (
            each["path"],
            f"{'' if each['exact'] else '~'}{each['documents']:,}",
            f"{each['nodes']:.1f}".removesuffix(".0"),
            each["distinct"] or "",
            ", ".join(_value(value) for value in each["values"]),
        )
        for each in found["paths"]
    ]
    table(["path", "documents", "nodes each", "values", "for instance"], rows)
    if found["sampled"] < found["documents"]:
        sampled = plural(found["sampled"], "document")
        click.echo(f"values, and numbers with ~, are those of a sample of {sampled}")
    unknown = found["documents"] - found["known"]
    if unknown:
        click.echo(
            f"the paths of {plural(unknown, 'document')} are not counted: they came before paths"
            " were counted, or have too many different ones"
        )
    if found["cut"]:
        click.echo(f"{plural(found['cut'], 'document')} have further paths, which are left out")


def _value(each: dict[str, Any]) -> str:
    return f"{each['value']!r}" + (f" ({each['documents']:,})" if each["documents"] > 1 else "")


@click.command()
@click.argument("names", metavar="STREAM...", nargs=-1)
@click.option(
    "--document",
    metavar="ID",
    help="Joins of this stored document with others, of these streams or of all.",
)
@click.option(
    "--most",
    type=click.IntRange(1, 20),
    default=5,
    show_default=True,
    help="How many joins are shown, the best ones.",
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")
@with_streams
def suggest(
    streams: KnownStreams, names: tuple[str, ...], document: str | None, most: int, as_json: bool
) -> None:
    """Suggest joins within one STREAM, or between several, each with a query.

    Looks for values that meet: between the feeds of a stream, else between all of its documents,
    or those of different streams. A join is good if many documents have a partner, and each has
    few. The queries were tried on a sample of the documents; they go to standard output, so that
    they can be kept in a file.

    \b
    broker suggest S
    broker suggest Posts Comments > joins.xscl
    broker suggest --document story-7
    """
    if not names and document is None:
        raise click.UsageError("name a STREAM, or a document with --document")
    there = streams.all()
    for name in names:
        if name not in {each["name"] for each in there}:
            raise _missing(name, there)
    if document is None:
        found = streams.suggest(names, most)
    else:
        joined = streams.suggest_for(document, names, most)
        if joined is None:
            raise Failed(f"no stored document is called {document}")
        found = joined
    if as_json:
        for each in found:
            echo_json(each)
        return
    for number, each in enumerate(found):
        end = "" if number == len(found) - 1 else ";"
        click.echo(f"-- {_why(each)}\n{visible_lines(each['query'])}{end}")
    if not found:
        said = "no values meet often enough in the documents that are stored"
        if document is not None:
            said = f"nothing joins with {document}: no values of it are those of few others"
        console.print(said)


def _why(each: dict[str, Any]) -> str:
    sides = [f"{side['stream']} {side['path']}" for side in (each["left"], each["right"])]
    if each["partners"]:
        return visible(f"{sides[0]} = {sides[1]}: joins it with {listed(each['partners'])}")
    matches = plural(each["matches"], "match", "matches")
    return visible(
        f"{sides[0]} = {sides[1]}: {plural(each['values'], 'value')} in common, {matches} with"
        f" {each['documents']:,} of {plural(each['sampled'], 'document')}"
    )
