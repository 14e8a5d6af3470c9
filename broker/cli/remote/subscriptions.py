"""`broker subscribe`: queries become subscriptions of a service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import xscl
from broker.cli.progress import Work, quiet_option
from broker.cli.query_files import QUERY_PATH, check_queries, read_queries
from broker.cli.remote.client import (
    Service,
    echo_json,
    object_of,
    objects_of,
    say,
    with_service,
)
from broker.cli.shared import DURATION, Wrong, plural
from broker.text.units import format_duration, parse_duration

_LONGEST = 900_000
"""Bytes of a text that is sent at once."""
_AT_ONCE = 1_000
"""Queries that are sent at once."""
SINGLY = 50
"""The number of queries up to which each is reported on a line of its own."""


class PeriodType(click.ParamType[dict[str, Any]]):
    """Something and a period, as "author:1 h" or "100:1 min"."""

    name = "period"

    def __init__(self, key: str, *, number: bool = False) -> None:
        self.key = key
        self.number = number

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        first, colon, period = str(value).rpartition(":")
        if self.number and not (colon and first.strip().isdigit() and int(first)):
            self.fail(f"{value!r}: write a number and a period, for instance 100:1 min", param, ctx)
        try:
            text = format_duration(parse_duration(period))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        bound: Any = int(first) if self.number else first.strip() or None
        return {self.key: bound, "period": text}


def _checked(_: click.Context, __: click.Parameter, paths: tuple[Path, ...]) -> list[xscl.ast.File]:
    """Parse the files before any request is sent. Raises XsclError."""
    files = read_queries(paths)
    program = check_queries(files)
    for warning in program.warnings:
        say(warning.render())
    if not program.queries:
        raise Wrong("the query files hold no query")
    return files


@click.command()
@click.argument("queries", nargs=-1, required=True, callback=_checked, type=QUERY_PATH)
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
    "at most one per period.",
)
@click.option(
    "--limit",
    type=PeriodType("matches", number=True),
    metavar="N:PERIOD",
    help="Suspend a subscription that finds more, as 1000:1 h; else limits.matches of the "
    "settings.",
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
        "throttle": throttle,
        "limit": limit,
        "channels": [{"kind": "webhook", "settings": {"url": webhook}}] if webhook else [],
    }
    total = sum(map(_count, queries))
    added = Added(total)
    with Work("query", many="queries", total=total) as work:
        try:
            for file in queries:
                for text, count in _parts(file):
                    sent = {"text": text, "name": file.span.source.name, **body}
                    answer = service.post("/v1/subscriptions", sent)
                    if dry_run:
                        with work.aside():
                            _report_dry_run(object_of(answer))
                        continue
                    added.tell(objects_of(answer), webhook=webhook is not None)
                    work.advance(count)
        except BaseException:
            # What is there stays there, whatever became of the rest.
            added.stopped()
            raise
    if not dry_run:
        added.summarise()


class Added:
    """Reports the outcomes of queries: a line each, or one line for very many."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._many = total > SINGLY
        self._outcomes: Counter[str] = Counter()

    def tell(self, answers: list[dict[str, Any]], *, webhook: bool) -> None:
        self._outcomes.update(each["outcome"] for each in answers)
        for each in () if self._many else answers:
            _tell_new(each)
            if webhook:
                name = f"{each['id']}.webhook"
                say(f"  what is signed with: broker channels show {name} --secrets")

    def stopped(self) -> None:
        """Say how far it got, where not all of it was done."""
        if self._many or self._outcomes:
            done = self._outcomes.total()
            added = f"{done:,} of {plural(self._total, 'query', 'queries')} were added{self._of()}"
            say(f"{added}; given again, they go on as they are, and the others are added")

    def summarise(self) -> None:
        if self._many:
            say(f"{plural(self._total, 'query', 'queries')}{self._of()}")

    def _of(self) -> str:
        parts = [f"{count:,} {outcome}" for outcome, count in self._outcomes.most_common()]
        return f": {', '.join(parts)}" if parts else ""


def _count(file: xscl.ast.File) -> int:
    return sum(isinstance(statement, xscl.ast.Query) for statement in file.statements)


def _parts(file: xscl.ast.File) -> Iterator[tuple[str, int]]:
    """The text of a file as the service takes it, and how many queries it has: in parts, where it
    is long. Each part has the declarations of the file."""
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
    say(f"in history: {plural(reply['documents'], 'document')}, {found}; nothing was added")
    for id in reply["suspended"]:
        say(f"{id}: would be suspended: it found more there than its limit")


def _tell_new(each: dict[str, Any]) -> None:
    words = {
        "new": f"counts from document {each['first_doc']:,} on",
        "replaced": f"has changed: it starts anew, from document {each['first_doc']:,} on",
        "unchanged": "was there already, and goes on",
    }
    said = words.get(each["outcome"], each["outcome"])
    if each["outcome"] == "unchanged" and each["status"] != "active":
        said = f"was there already, and is {each['status']}: broker resume {each['id']}"
    if each.get("history"):
        found = plural(each["history"]["matches"], "match", "matches")
        said += f"; history: {plural(each['history']['documents'], 'document')}, {found}"
        if each["id"] in each["history"]["suspended"]:
            said += "; suspended at its limit"
    said += "".join(f"; {name} {change}" for name, change in _changes(each))
    say(f"{each['id']}: {said}")


def _changes(each: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What became of the throttle and the limit, where there are any or were."""
    for name, form in (("throttle", _throttle), ("limit", _limit)):
        was, now = form(each["was"][name]), form(each[name])
        if was == now:
            if now != _NONE:
                yield name, f"unchanged: {now}"
        elif was == _NONE:
            yield name, now
        else:
            yield name, f"{was} -> {now}"


_NONE = "none"


def _throttle(throttle: dict[str, Any] | None) -> str:
    if throttle is None:
        return _NONE
    per = f"{throttle['variable']} and " if throttle["variable"] else ""
    return f"one per {per}{throttle['period']}"


def _limit(limit: dict[str, Any] | None) -> str:
    return _NONE if limit is None else f"{limit['matches']:,} per {limit['period']}"
