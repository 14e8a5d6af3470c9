"""`broker run`: subscriptions over documents and feeds, through Spark or in this process."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import getproxies

import click

from broker.cli.opening import open_broker, report_unseen
from broker.cli.output import Delivery, format_option, out_option
from broker.cli.places import (
    XmlOptions,
    check_xpath,
    places,
    report_places,
    split_option,
    stream_option,
)
from broker.cli.progress import Work, interactive, quiet_option, stage
from broker.cli.query_files import STDIN, query_files, read_queries
from broker.cli.sharding import Sharding, conf_option, shards_options
from broker.cli.shared import (
    DURATION,
    Stopped,
    allow_private_option,
    console,
    decide_option,
    lateness_option,
    pipeline_option,
    plural,
    report_dead_letters,
    report_suspensions,
    report_waiting,
    revisions_option,
    state_option,
)
from broker.model import Revisions
from broker.runs import Progress, Run, stop_on_signals
from xscl.growth import collect_rarely

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.cli.places import Place
    from broker.cli.polling import Polling
    from broker.model import Match


@click.command()
@query_files
@click.option(
    "--documents",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="An .xml file (move it in when it is complete), a .jsonl file, whose lines are "
    '{"id", "stream", "timestamp", "xml"}, or a directory of either or both, which are picked up '
    "as they arrive. May be given several times.",
)
@click.option(
    "--feeds",
    multiple=True,
    metavar="URL|FILE",
    help="A feed's URL or file, or an OPML file that lists feeds. May be given several times. "
    "Those added to the state with broker feeds add are fetched in any case.",
)
@state_option
@click.option("--once", is_flag=True, help="Process what is there, then stop.")
@decide_option
@out_option
@format_option
@stream_option
@click.option(
    "--timestamp",
    metavar="XPATH",
    callback=check_xpath,
    help="Where an .xml document holds its time (a date, or seconds); else the file's time counts.",
)
@split_option
@click.option(
    "--interval",
    type=DURATION,
    help="Time between two fetches of a feed. By default 15 minutes, and more for feeds that bring "
    "little or ask for more.",
)
@allow_private_option
@click.option(
    "--websub",
    metavar="URL",
    help="Have feeds pushed by their WebSub hubs, which reach this program under URL (that of a "
    "reverse proxy in front of --websub-listen, say).",
)
@click.option(
    "--websub-listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8087",
    show_default=True,
    help="Where to listen for hubs, with --websub.",
)
@lateness_option
@revisions_option
@click.option(
    "--backfill",
    type=DURATION,
    metavar="DURATION",
    help="Let subscriptions that are new to the state match what it has stored, that long before "
    "its newest document; INFINITY: all that is there.",
)
@pipeline_option
@click.option("--master", help="Spark master; by default Spark runs in this process's machine.")
@shards_options
@conf_option
@quiet_option
def run(
    queries: tuple[Path, ...],
    documents: tuple[Path, ...],
    feeds: tuple[str, ...],
    state: Path | None,
    once: bool,
    decide: bool,
    out: str,
    form: str,
    stream: str,
    timestamp: str | None,
    split: str | None,
    interval: int | None,
    allow_private: bool,
    websub: str | None,
    websub_listen: str,
    lateness: int,
    revisions: Revisions,
    backfill: int | None,
    pipeline: str,
    master: str | None,
    shards: int | None,
    shared: str | None,
    conf: dict[str, str],
    patience: int,
    metrics: tuple[str, int] | None,
) -> None:
    """Run the subscriptions in QUERIES over documents and feeds.

    QUERIES are files, or - for standard input. Each match is written as it is found. With --state
    the command may be stopped or killed at any time; started again, it goes on where it was:
    nothing is lost and nothing found twice. What it was writing when it was killed it writes
    again, under the same ids.
    """
    watched = state is not None and (state / "spool.sqlite").exists()
    if not documents and not feeds and not watched:
        raise click.UsageError(
            "nothing to read: give --documents or --feeds, or both,"
            " or a --state whose feeds were added with broker feeds add"
        )
    if master is not None and pipeline == "local":
        raise click.UsageError("--master is for Spark, so no --pipeline local")
    sharding = Sharding.of(shards, shared, conf, patience, metrics, form=form, pipeline=pipeline)
    if decide and not once:
        raise click.UsageError("--decide is for the end of what --once reads")
    if websub and once:
        raise click.UsageError("--websub needs a broker that goes on running, so no --once")
    from broker.cli.polling import Polling, parse_push

    push = parse_push(websub, websub_listen) if websub else None
    with ExitStack() as stack:
        if state is None:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="broker-"))
            directory = Path(scratch)
        else:
            directory = state
        files = read_queries(queries)
        broker = stack.enter_context(
            open_broker(
                directory, lateness, files, backfill, revisions=revisions, sharding=sharding
            )
        )
        delivery = Delivery(broker, out, form, files)
        delivery.pending()
        if sharding.count:
            broker.engine.on_text = delivery.text
        poll = None
        if feeds or watched:
            poll = stack.enter_context(
                Polling(directory, feeds, interval, push, getproxies(), allow_private=allow_private)
            )
        before = len(broker.dead_letters())
        xml = XmlOptions(stream, timestamp, split)
        pipe(
            broker,
            directory,
            delivery,
            documents=documents,
            xml=xml,
            poll=poll,
            once=once,
            decide=decide,
            pipeline=pipeline,
            master=master,
            keep=state is not None,
            sharding=sharding,
            ask=_asks_why(queries, documents, xml, state),
        )
        report_dead_letters(broker.dead_letters()[before:], state)
        if once:
            report_unseen(broker, files)


def _asks_why(
    queries: Sequence[Path], documents: Sequence[Path], xml: XmlOptions, state: Path | None
) -> str | None:
    """The command that tells why the queries have not matched; None if nothing of theirs stays."""
    if STDIN in queries:
        return None
    if state is not None:
        which = ["--state", str(state)]
    elif documents:
        which = [word for path in documents for word in ("--documents", str(path))] + xml.words
    else:
        file = shlex.quote(str(queries[0]))
        return f"broker run with --state DIR, then broker why {file} --state DIR"
    return shlex.join(["broker", "why", str(queries[0]), *which])


def pipe(
    broker: Broker,
    directory: Path,
    delivery: Callable[[list[Match]], None],
    *,
    documents: Sequence[Path] = (),
    xml: XmlOptions | None = None,
    poll: Polling | None = None,
    once: bool,
    decide: bool = False,
    pipeline: str,
    master: str | None = None,
    keep: bool = True,
    brief: bool = False,
    ask: str | None = None,
    sharding: Sharding | None = None,
) -> int:
    """Run the pipeline until it is done or stopped; returns the number of documents processed.

    `pipeline`: "spark" or "local". `decide`: at the end of what is read `once`, decide what event
    patterns wait for. `keep`: the directory stays, so that messages may refer to it; `brief`: its
    beginning is not told, nor a summary. `ask` is the command that tells why nothing matched.
    """
    from broker.state.logged_documents import first_needed
    from feeds.requested import Requested

    collect_rarely()
    xml = xml or XmlOptions()
    needed: int | None = None
    if poll is not None:
        if once:
            _fetch(poll)
        broker.engine.expect(Requested(poll.spool.path))
        with broker.engine.store.snapshot() as statements:
            needed, _ = first_needed(statements)  # by what a service has matched before
    read = list(places(documents))
    match_count = 0
    with (
        _prepared(pipeline, broker, directory, read, xml, poll, master, sharding, keep=keep) as run,
        Work("document") as work,
        stop_on_signals() as stop,
    ):
        if poll is not None and not once:
            poll.start()
        _announce(once, brief)

        def on_matches(matches: list[Match]) -> None:
            with work.aside():
                delivery(matches)

        def on_progress(done: Progress) -> None:
            nonlocal match_count
            match_count += done.matches
            work.advance(done.documents, note=plural(match_count, "match", "matches"))
            report_suspensions(broker)
            if poll is not None and done.documents:
                # What the engine has committed is never read again.
                poll.spool.trim(broker.engine.position, needed)

        summary = run(once=once, on_matches=on_matches, on_progress=on_progress, stop=stop)
        decided: list[Match] = []
        if decide and stop.signal is None:
            decided = broker.decide()
            on_matches(decided)
        match_count = summary.matches + len(decided)
        nothing = summary.documents and not match_count
        # Shards know what waits in them, and end with the pipeline.
        asked = not brief and (once or (ask and nothing))
        waiting = broker.waiting() if asked else []
    if not brief:
        totals = plural(summary.documents, "document"), plural(match_count, "match", "matches")
        console.print(f"{', '.join(totals)} in {summary.elapsed:.1f} s")
        if once:
            report_waiting(waiting, decides=not decide)
        if ask and nothing and not waiting:
            console.print(f"nothing matched; this tells why: {ask}")
    report_places(read, xml, summary.undated)
    if once and stop.signal is not None:
        goes_on = "; the next run with this --state goes on" if keep else ""
        raise Stopped(f"stopped before all was read{goes_on}", stop.signal)
    return summary.documents


def _prepared(
    pipeline: str,
    broker: Broker,
    directory: Path,
    read: Sequence[Place],
    xml: XmlOptions,
    poll: Polling | None,
    master: str | None,
    sharding: Sharding | None,
    *,
    keep: bool,
) -> AbstractContextManager[Run]:
    """The pipeline of that kind, over its sources. The other one is not imported: Spark takes a
    second."""
    spool = None if poll is None else poll.spool.path
    if pipeline == "local":
        from broker.cli.run_local import in_this_process

        return in_this_process(broker, directory, read, xml, spool)
    from broker.cli.run_spark import through_spark

    return through_spark(
        broker,
        directory,
        read,
        xml,
        spool,
        master=master,
        keep=keep,
        sharding=sharding or Sharding(),
    )


def _fetch(poll: Polling) -> None:
    with stage(f"fetching {plural(len(poll.spool.feeds()), 'feed')}", seen_only=True):
        poll.once()


def _announce(once: bool, brief: bool) -> None:
    if not (brief or (once and interactive())):  # then the line of progress suffices
        console.print("running" if once else "running; stop with Ctrl-C")
