"""`broker why`: what became of the documents of an event pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from broker.cli.remote.client import Service, part
from broker.cli.remote.options import with_service
from broker.cli.shared import plural
from broker.cli.tables import echo_json, moment
from broker.text.printable import visible


@click.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="All that the service tells, as JSON.")
@with_service
def why(service: Service, id: str, as_json: bool) -> None:
    """Tell why an event pattern has matched, has not, or not yet: subscription ID.

    Says how many of the stored documents each block took, how many matches there are among them,
    what waits and until when, and what was blocked by which document.

    \b
    broker why unchallenged
    broker why unchallenged --json
    """
    found = service.get_list(f"/v1/subscriptions/{part(id)}/why")
    if as_json:
        echo_json(found)
        return
    for told in found:
        for line in _lines(told):
            click.echo(visible(line))


def _lines(told: dict[str, Any]) -> Iterator[str]:
    yield f"{told['query']}: {_sentence(told)}"
    width = max(len(block["block"]) for block in told["blocks"])
    for block in told["blocks"]:
        yield f"  {block['block'].ljust(width)}  {plural(block['documents'], 'document')}"
    yield from _many(told["waiting_count"], told["waiting"], "waits", "wait", _waiting)
    yield from _many(
        told["blocked_count"], told["blocked"], "was blocked", "were blocked", _blocked
    )
    yield f"  It answers {told['answers']}; {told['growth']}."


def _sentence(told: dict[str, Any]) -> str:
    found = told["found"]
    if found is None:
        return "there is too much to try among the stored documents; narrow its windows or joins"
    matches = plural(found, "match", "matches")
    missing = [block["block"] for block in told["blocks"] if not block["documents"]]
    if not found and missing:
        return f"no matches among the stored documents, of which none is {' nor '.join(missing)}"
    if not found and not told["waiting_count"] and not told["blocked_count"]:
        return (
            "no matches: no stored documents of its blocks go together by order, window and joins"
        )
    return f"{matches} among the stored documents"


def _many(
    count: int, entries: Sequence[dict[str, Any]], one: str, many: str, line: Any
) -> Iterator[str]:
    if not count:
        return
    yield f"  {count:,} {one if count == 1 else many}:"
    for entry in entries:
        yield f"    {line(entry)}"
    if count > len(entries):
        yield f"    and {count - len(entries):,} more"


def _waiting(entry: dict[str, Any]) -> str:
    decides = entry["decides"]
    until = f"until a document or the clock is at {moment(decides)}" if decides else "for ever"
    return f"{_documents(entry['documents'])}, {until}"


def _blocked(entry: dict[str, Any]) -> str:
    there = f"and there is {_documents(entry['by'])}"
    if not entry["by"]:
        there = "which looks back to before the registration"
    return f"{_documents(entry['documents'])}: {entry['absent']}, {there}"


def _documents(found: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{each['id']} ({moment(each['time'])})" for each in found)
