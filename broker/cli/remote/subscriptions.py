"""`broker subscribe`: adds the subscriptions in query files to a service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import xscl
from broker import advice
from broker.cli.progress import Work, quiet_option
from broker.cli.query_files import QUERY_PATH, check_queries, read_queries, require_queries
from broker.cli.remote.answers import object_of, objects_of
from broker.cli.remote.client import Service
from broker.cli.remote.options import with_service
from broker.cli.shared import DURATION, console, plural
from broker.cli.tables import echo_json
from broker.text.units import format_duration, parse_duration

_LONGEST = 900_000
"""The largest text of one request, in bytes."""
_AT_ONCE = 1_000
"""The largest number of queries of one request."""
SINGLY = 50
"""The number of queries up to which each is reported on a line of its own."""


class PeriodType(click.ParamType[dict[str, Any]]):
    """A name or a number with a period, as in "author:1 h" or "100:1 min"; none: empty."""

    name = "period"

    def __init__(self, key: str, *, number: bool = False) -> None:
        self.key = key
        self.number = number

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        if value == "none":
            return {}
        first, colon, period = str(value).rpartition(":")
        if self.number and not (colon and first.strip().isdigit() and int(first)):
            self.fail(f"{value!r}: write a number and a period, for instance 100:1 min", param, ctx)
        try:
            text = format_duration(parse_duration(period))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        bound: Any = int(first) if self.number else first.strip() or None
        return {self.key: bound, "period": text}


_SAID = f"{__name__}.said"
"""Where the context has the places of the warnings that were printed."""


def _check(ctx: click.Context, __: click.Parameter, paths: tuple[Path, ...]) -> list[xscl.ast.File]:
    """Parse and check the files before any request is sent. Raises XsclError."""
    files = read_queries(paths)
    program = check_queries(files)
    said = advice.warnings(program)
    for warning in said:
        console.print(warning.render())
    ctx.meta[_SAID] = {(each.span.line, each.span.column) for each in said}
    require_queries(program.queries)
    return files


@click.command()
@click.argument("queries", nargs=-1, required=True, callback=_check, type=QUERY_PATH)
@click.option(
    "--dry-run", is_flag=True, help="Only show what they would have matched in stored history."
)
@click.option(
    "--backfill",
    type=DURATION,
    metavar="DURATION",
    help="Match stored history as well, that long before its newest document; INFINITY: all of it.",
)
@click.option(
    "--throttle",
    type=PeriodType("variable"),
    metavar="[VAR:]PERIOD",
    help="At most one match per value of a variable and period, as author:1 h; without a variable "
    "at most one per period; none: no more.",
)
@click.option(
    "--limit",
    type=PeriodType("matches", number=True),
    metavar="N:PERIOD",
    help="Suspend a subscription that finds more, as 1000:1 h; else, and with none, "
    "limits.matches of the settings.",
)
@click.option(
    "--webhook",
    metavar="URL",
    help="Bring matches there, signed. More ways are in broker channels add.",
)
@quiet_option
@with_service
def subscribe(
    service: Service,
    queries: list[xscl.ast.File],
    dry_run: bool,
    backfill: int | None,
    throttle: dict[str, Any] | None,
    limit: dict[str, Any] | None,
    webhook: str | None,
) -> None:
    """Add the subscriptions in query files to the service.

    They count from the next document on. One that is there already goes on as it is; one whose text
    has changed takes the place of the old one. Where a file has an error, none of them is added.
    With --dry-run the matches go to standard output, as JSON lines. - stands for standard input.

    \b
    broker subscribe news.xscl
    broker subscribe news.xscl --dry-run --backfill "7 days"
    broker subscribe news.xscl --throttle "author:1 h" --webhook https://example.org/hook
    """
    body = {
        "dry_run": dry_run,
        "backfill": None if backfill is None else format_duration(backfill),
        "throttle": throttle or None,
        "limit": limit or None,
        "lift": [name for name, given in (("throttle", throttle), ("limit", limit)) if given == {}],
        "channels": [{"kind": "webhook", "settings": {"url": webhook}}] if webhook else [],
    }
    total = sum(map(_count, queries))
    report = SubscribeReport(total, click.get_current_context().meta[_SAID])
    with Work("query", many="queries", total=total) as work:
        try:
            for file in queries:
                for text, count in _parts(file):
                    request = {"text": text, "name": file.span.source.name, **body}
                    response = service.post("/v1/subscriptions", request)
                    if dry_run:
                        with work.aside():
                            _report_dry_run(object_of(response))
                        continue
                    report.add(objects_of(response), webhook=webhook is not None)
                    work.advance(count)
        except BaseException:
            # Subscriptions of earlier requests stay, even if a later one fails.
            report.interrupted()
            raise
    if not dry_run:
        report.summarise()


class SubscribeReport:
    """Prints the outcomes of queries: a line each, or one line for very many."""

    def __init__(self, total: int, said: set[tuple[int, int]]) -> None:
        self._total = total
        self._said = said
        self._many = total > SINGLY
        self._outcomes: Counter[str] = Counter()

    def add(self, replies: list[dict[str, Any]], *, webhook: bool) -> None:
        self._outcomes.update(reply["outcome"] for reply in replies)
        for warning in replies[0].get("warnings", ()) if replies else ():
            # Those that need no documents were printed before anything was sent.
            place = (warning.get("line"), warning.get("column"))
            if place not in self._said:
                self._said.add(place)
                console.print(warning.get("rendered") or warning["message"])
        for reply in () if self._many else replies:
            _report_outcome(reply)
            if webhook:
                name = f"{reply['id']}.webhook"
                console.print(f"  what is signed with: broker channels show {name} --secrets")

    def interrupted(self) -> None:
        """Print how many queries were added before an error or Ctrl-C."""
        if self._many or self._outcomes:
            done = self._outcomes.total()
            total = plural(self._total, "query", "queries")
            added = f"{done:,} of {total} were added{self._by_outcome()}"
            console.print(f"{added}; given again, they go on as they are, and the others are added")

    def summarise(self) -> None:
        if self._many:
            console.print(f"{plural(self._total, 'query', 'queries')}{self._by_outcome()}")

    def _by_outcome(self) -> str:
        parts = [f"{count:,} {outcome}" for outcome, count in self._outcomes.most_common()]
        return f": {', '.join(parts)}" if parts else ""


def _count(file: xscl.ast.File) -> int:
    return sum(isinstance(statement, xscl.ast.Query) for statement in file.statements)


def _parts(file: xscl.ast.File) -> Iterator[tuple[str, int]]:
    """The text of a file and its number of queries, split into several requests if it is long. Each
    part begins with the declarations of the file."""
    count, whole = _count(file), file.span.source.text
    if len(whole.encode("utf-8", "surrogatepass")) <= _LONGEST and count <= _AT_ONCE:
        yield whole, count
        return
    declared = [s for s in file.statements if not isinstance(s, xscl.ast.Query)]
    lead = xscl.format_file(replace(file, statements=tuple(declared)))
    part: list[str] = []
    size = 0
    for statement in file.statements:
        if isinstance(statement, xscl.ast.Query):
            text = xscl.format_file(replace(file, statements=(statement,)))
            full = len(part) == _AT_ONCE or size + len(text) + len(lead) > _LONGEST
            if part and full:
                yield lead + "".join(part), len(part)
                part, size = [], 0
            part.append(text)
            size += len(text)
    yield lead + "".join(part), len(part)


def _report_dry_run(reply: dict[str, Any]) -> None:
    for match in reply["matches"]:
        echo_json(match)
    found = plural(len(reply["matches"]), "match", "matches")
    documents = plural(reply["documents"], "document")
    console.print(f"in history: {documents}, {found}; nothing was added")
    for id in reply["suspended"]:
        console.print(f"{id}: would be suspended: it found more there than its limit")


def _report_outcome(reply: dict[str, Any]) -> None:
    messages = {
        "new": f"counts from document {reply['first_doc']:,} on",
        "replaced": f"has changed: it starts anew, from document {reply['first_doc']:,} on",
        "unchanged": "was there already, and goes on",
    }
    message = messages.get(reply["outcome"], reply["outcome"])
    if reply["outcome"] == "unchanged" and reply["status"] != "active":
        message = f"was there already, and is {reply['status']}: broker resume {reply['id']}"
    if history := reply.get("history"):
        matches = plural(history["matches"], "match", "matches")
        message += f"; history: {plural(history['documents'], 'document')}, {matches}"
        if reply["id"] in history["suspended"]:
            message += "; suspended at its limit"
    message += "".join(f"; {name} {change}" for name, change in _changes(reply))
    console.print(f"{reply['id']}: {message}")


def _changes(reply: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names of throttle and limit with how they have changed, if there are or were any."""
    for name, form in (("throttle", _throttle), ("limit", _limit)):
        before, now = form(reply["was"][name]), form(reply[name])
        if before == now:
            if now != _NONE:
                yield name, f"unchanged: {now}"
        elif before == _NONE:
            yield name, now
        else:
            yield name, f"{before} -> {now}"


_NONE = "none"


def _throttle(throttle: dict[str, Any] | None) -> str:
    if throttle is None:
        return _NONE
    per = f"{throttle['variable']} and " if throttle["variable"] else ""
    return f"one per {per}{throttle['period']}"


def _limit(limit: dict[str, Any] | None) -> str:
    return _NONE if limit is None else f"{limit['matches']:,} per {limit['period']}"
