"""`broker replay`: the items of a feed archive in order of arrival, as fast as possible."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.opening import open_broker, report_unseen
from broker.cli.output import Delivery, format_option, out_option
from broker.cli.progress import Work, quiet_option
from broker.cli.query_files import STDIN, query_files, read_queries
from broker.cli.shared import (
    console,
    decide_option,
    lateness_option,
    plural,
    report_dead_letters,
    report_suspensions,
    report_waiting,
    revisions_option,
    state_option,
)
from broker.cli.signals import if_stopped
from broker.model import Revisions
from broker.shared_match import each_match

if TYPE_CHECKING:
    from broker.documents.arrow import Arrivals
    from feeds.rows import DocumentRow
    from xscl.stage1.matcher import Matcher

BATCH = 500
"""Items per batch."""


@click.command()
@click.argument("archive", type=click.Path(exists=True, file_okay=False, path_type=Path))
@query_files
@state_option
@out_option
@format_option
@decide_option
@lateness_option
@revisions_option
@quiet_option
def replay(
    archive: Path,
    queries: tuple[Path, ...],
    state: Path | None,
    out: str,
    form: str,
    decide: bool,
    lateness: int,
    revisions: Revisions,
) -> None:
    """Replay a feed ARCHIVE through the subscriptions in QUERIES.

    The archive holds a directory per feed, with snapshots named <UTC time>_….xml. Each item arrives
    when it was first seen, and flows through the stream S, one named like its directory and one
    named like its feed's title. QUERIES are files, or - for standard input.
    """
    from feeds.archive import replay as archive_rows
    from feeds.archive import snapshots

    problems: list[tuple[str, str]] = []
    with ExitStack() as stack:
        directory = state or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="broker-"))
        )
        files = read_queries(queries)
        broker = stack.enter_context(open_broker(directory, lateness, files, revisions=revisions))
        delivery = Delivery(broker, out, form, files)
        delivery.pending()
        before = len(broker.dead_letters())
        items = match_count = 0
        total = len(snapshots(archive))
        if not total:
            console.print(
                f"{archive}: no snapshot is there: they are files named <UTC time>_….xml in a"
                " directory for each feed"
            )
        work = stack.enter_context(Work("item", total=total, parts=True))
        snapshots_read: list[None] = []
        rows = archive_rows(
            archive,
            lambda place, problem: problems.append((place, problem)),
            lambda: snapshots_read.append(None),
        )

        def how_to_go_on() -> None:
            on = "; the same command goes on behind them" if state is not None else ""
            console.print(f"{plural(items, 'item')}, {plural(match_count, 'match', 'matches')}{on}")

        with if_stopped(how_to_go_on):
            for arrivals, now in batches(rows, broker.engine.matcher):
                matches = each_match(broker.engine.apply(arrivals, now))
                with work.aside():
                    delivery(matches)
                items += len(arrivals.documents)
                match_count += len(matches)
                note = plural(match_count, "match", "matches")
                work.advance(len(arrivals.documents), part=len(snapshots_read), note=note)
                snapshots_read.clear()
                report_suspensions(broker)
        if decide:
            decided = broker.decide()
            match_count += len(decided)
            with work.aside():
                delivery(decided)
        for place, problem in problems[:10]:
            console.print(f"{place}: {problem}")
        if len(problems) > 10:
            more = plural(len(problems) - 10, "more snapshot")
            console.print(f"and {more} with problems")
        report_dead_letters(broker.dead_letters()[before:], state)
        console.print(f"{plural(items, 'item')}, {plural(match_count, 'match', 'matches')}")
        waiting = broker.waiting()
        report_waiting(waiting, decides=not decide)
        report_unseen(broker, files)
        if items and not match_count and not waiting and STDIN not in queries:
            file = shlex.quote(str(queries[0]))
            if state is not None:
                ask = f"broker why {file} --state {shlex.quote(str(state))}"
            else:
                ask = f"the same with --state DIR, then broker why {file} --state DIR"
            console.print(f"nothing matched; this tells why: {ask}")


def batches(rows: Iterator[DocumentRow], matcher: Matcher) -> Iterator[tuple[Arrivals, int | None]]:
    """Batches of document rows with their witnesses, each with the arrival time of its last row."""
    from broker.documents.witnessing import arrivals as witness_rows

    while chunk := list(islice(rows, BATCH)):
        yield witness_rows(matcher, chunk), chunk[-1].arrival
