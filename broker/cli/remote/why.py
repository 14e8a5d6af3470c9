"""`broker why`: what became of the stored documents of a query, and why it has matched or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import click

import xscl
from broker.cli.asking import of_documents, of_state
from broker.cli.places import XmlOptions, check_xpath, split_option, stream_option
from broker.cli.query_files import STDIN, read_text
from broker.cli.remote.answers import object_of, objects_of
from broker.cli.remote.client import Service, Unreachable, part
from broker.cli.remote.finding import NoService, Patience
from broker.cli.remote.options import find, service_options
from broker.cli.shared import DEFAULT_STATE, lateness_option, plural
from broker.cli.tables import echo_json, moment
from broker.text.printable import visible


class Asked(Protocol):
    """What answers: a service, a state directory, or documents."""

    def of_subscription(self, id: str, at_most: int) -> list[dict[str, Any]]: ...

    def of_text(self, text: str, name: str, at_most: int) -> list[dict[str, Any]]: ...

    def between(self, query: str, is_text: bool, ids: Sequence[str]) -> list[dict[str, Any]]: ...

    def try_out(self, text: str) -> dict[str, Any]:
        """The matches of queries among the stored documents; nothing is registered."""


class RemoteAsking:
    """Asks a running service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def of_subscription(self, id: str, at_most: int) -> list[dict[str, Any]]:
        path = f"/v1/subscriptions/{part(id)}/why"
        asked = self.service.ask("GET", path, params={"documents_at_most": at_most}, timeout=None)
        return objects_of(asked)

    def of_text(self, text: str, name: str, at_most: int) -> list[dict[str, Any]]:
        del name
        body = {"text": text, "documents_at_most": at_most}
        return objects_of(self.service.post("/v1/why", body))

    def between(self, query: str, is_text: bool, ids: Sequence[str]) -> list[dict[str, Any]]:
        if is_text:
            return objects_of(self.service.post("/v1/why", {"text": query, "documents": [*ids]}))
        path = f"/v1/subscriptions/{part(query)}/why/documents"
        return objects_of(self.service.ask("GET", path, params={"document": [*ids]}))

    def try_out(self, text: str) -> dict[str, Any]:
        body = {"text": text, "dry_run": True, "backfill": "INFINITY"}
        return object_of(self.service.post("/v1/subscriptions", body))


@contextmanager
def asked_of(url: str | None, state: Path | None, token_file: Path | None) -> Iterator[Asked]:
    """The service at an address or of a state directory; where none runs, the directory itself."""
    directory = Path(DEFAULT_STATE) if state is None else state
    try:
        service = find(url, state, token_file, Patience())
    except NoService:
        with of_state(directory) as local:
            yield local
        return
    try:
        service.get("/v1/status")
    except Unreachable:
        service.close()
        if url is not None:
            raise
        with of_state(directory) as local:
            yield local
        return
    try:
        yield RemoteAsking(service)
    finally:
        service.close()


@click.command()
@click.argument("query")
@click.option(
    "--document",
    "given",
    multiple=True,
    metavar="ID",
    help="Tell exactly what holds for this stored document, step by step; given twice or more, what"
    " holds between them.",
)
@click.option(
    "--documents",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Ask about these files and directories instead of stored documents, read as broker run "
    "reads them; QUERY is then a file.",
)
@stream_option
@click.option(
    "--timestamp",
    metavar="XPATH",
    callback=check_xpath,
    help="Where an .xml document has its time.",
)
@split_option
@lateness_option
@click.option(
    "--documents-at-most",
    "at_most",
    type=click.IntRange(1, 1_000_000),
    default=50_000,
    show_default=True,
    help="Look at so many stored documents, the newest.",
)
@click.option("--json", "as_json", is_flag=True, help="All that is known, as JSON.")
@service_options
def why(
    query: str,
    given: tuple[str, ...],
    documents: tuple[Path, ...],
    stream: str,
    timestamp: str | None,
    split: str | None,
    lateness: int,
    at_most: int,
    as_json: bool,
    url: str | None,
    state: Path | None,
    token_file: Path | None,
) -> None:
    """Tell why a query has matched, has not, or not yet, from the documents that are stored.

    QUERY is the id of a subscription, or a file of queries that need not be registered (- for
    standard input). Says how many documents passed each block and at which condition the others
    failed, how many pairs agree, what order, window and other predicates leave of them, and what to
    write instead; of an event pattern what waits and what was blocked. It asks the service that
    runs on the state directory; where none runs, it reads the directory itself.

    \b
    broker why followed
    broker why followed.xscl
    broker why followed --document story-1 --document story-2
    broker why followed.xscl --documents archive/
    """
    path = Path(query)
    is_text = path == STDIN or path.is_file()
    if documents and not is_text:
        raise click.UsageError(f"with --documents QUERY is a file of queries, and {query} is none")
    text, files = "", []
    if is_text:  # checked here too, where its name is known
        text, file = read_text(path)
        files = [file]
        xscl.check(files)
    source: AbstractContextManager[Asked]
    if documents:
        xml = XmlOptions(stream, timestamp, split)
        source = of_documents(files, documents, xml, lateness)
    else:
        source = asked_of(url, state, token_file)
    with source as asked:
        if given:
            found = asked.between(text if is_text else query, is_text, given)
        elif is_text:
            found = asked.of_text(text, query, at_most)
        else:
            found = asked.of_subscription(query, at_most)
    if as_json:
        echo_json(found)
        return
    for told in found:
        for line in lines(told):
            click.echo(visible(line))


def lines(told: dict[str, Any]) -> Iterator[str]:
    """What is told about a query or documents, in words."""
    if told.get("kind") == "pattern":
        yield from _pattern(told)
    else:
        yield from told["lines"]


def _pattern(told: dict[str, Any]) -> Iterator[str]:
    yield told["sentence"]
    width = max(len(block["block"]) for block in told["blocks"])
    for block in told["blocks"]:
        yield f"  {block['block'].ljust(width)}  {plural(block['documents'], 'document')}"
    yield from _many(told["waiting_count"], told["waiting"], "waits", "wait", _waiting)
    yield from _many(
        told["blocked_count"], told["blocked"], "was blocked", "were blocked", _blocked
    )
    yield f"  It answers {told['answers']}; {told['growth']}."


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
