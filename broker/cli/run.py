"""`broker run`: subscriptions over documents and feeds, through the Spark pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

import click

from broker.cli.opening import open_broker
from broker.cli.output import Delivery, format_option, out_option
from broker.cli.progress import Work, interactive, quiet_option, stage
from broker.cli.query_files import query_files, read_queries
from broker.cli.shared import (
    DURATION,
    Failed,
    Stopped,
    allow_private_option,
    console,
    lateness_option,
    plural,
    report_dead_letters,
    revisions_option,
    state_option,
)
from broker.model import Revisions
from broker.runs import PipelineError, Progress, Summary, stop_on_signals
from broker.text.formats import ReaderGone
from xscl.growth import collect_rarely

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.cli.polling import Polling
    from broker.model import Match
    from broker.spark.session import Session
    from broker.spark.sources import Source


def _xpath(context: click.Context, _parameter: click.Parameter, xpath: str | None) -> str | None:
    if xpath is not None:
        from broker.spark.documents import timestamp_reader

        try:
            timestamp_reader(xpath)
        except ValueError as error:
            raise click.UsageError(f"--{error}", context) from None
    return xpath


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
@out_option
@format_option
@click.option("--stream", default="S", show_default=True, help="Stream of the .xml files.")
@click.option(
    "--timestamp",
    metavar="XPATH",
    callback=_xpath,
    help="Where an .xml document holds its time (a date, or seconds); else the file's time counts.",
)
@click.option("--split", metavar="NAME", help="Make each element NAME of an .xml file a document.")
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
@click.option("--master", help="Spark master; by default Spark runs in this process's machine.")
@quiet_option
def run(
    queries: tuple[Path, ...],
    documents: tuple[Path, ...],
    feeds: tuple[str, ...],
    state: Path | None,
    once: bool,
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
    master: str | None,
) -> None:
    """Run the subscriptions in QUERIES over documents and feeds.

    QUERIES are files, or - for standard input. Each match is written as it is found. With --state
    the command may be stopped or killed at any time; started again, it goes on where it was:
    nothing is lost and nothing found twice.
    """
    watched = state is not None and (state / "spool.sqlite").exists()
    if not documents and not feeds and not watched:
        raise click.UsageError(
            "nothing to read: give --documents or --feeds, or both,"
            " or a --state whose feeds were added with broker feeds add"
        )
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
            open_broker(directory, lateness, files, backfill, revisions=revisions)
        )
        delivery = Delivery(broker, out, form, files)
        delivery.pending()
        poll = None
        if feeds or watched:
            poll = stack.enter_context(
                Polling(directory, feeds, interval, push, getproxies(), allow_private=allow_private)
            )
        before = len(broker.dead_letters())
        pipe(
            broker,
            directory,
            delivery,
            documents=documents,
            xml_options={"streams": (stream,), "timestamp": timestamp, "split": split},
            poll=poll,
            once=once,
            master=master,
            keep=state is not None,
        )
        report_dead_letters(broker.dead_letters()[before:], state)


def pipe(
    broker: Broker,
    directory: Path,
    delivery: Callable[..., None],
    *,
    documents: Sequence[Path] = (),
    xml_options: dict[str, Any] | None = None,
    poll: Polling | None = None,
    once: bool,
    master: str | None = None,
    keep: bool = True,
    brief: bool = False,
) -> int:
    """Run the pipeline until it is done or stopped; returns the number of documents processed.

    `keep`: the directory stays, so that messages may refer to it; `brief`: no summary is printed.
    """
    # Spark takes a second to import, so commands that fail earlier do not wait for it.
    from broker.spark.gateway import JavaError
    from broker.spark.pipeline import run_pipeline
    from broker.spark.session import start_session, stop_session
    from broker.spark.sources import Source
    from feeds.requested import Requested
    from feeds.source import FeedSpool

    collect_rarely()
    if poll is not None and once:
        _fetch(poll)
    session = None
    try:
        with stage("starting Spark"):
            session = start_session(master, state_dir=directory)
        sources = [s for path in documents for s in _sources(session, path, xml_options or {})]
        if poll is not None:
            session.dataSource.register(FeedSpool)
            broker.engine.expect(Requested(poll.spool.path))
            spool = str(poll.spool.path.absolute())
            frame = session.readStream.format("feed_spool").option("path", spool).load()
            sources.append(Source(f"feeds {spool}", frame))
            if not once:
                poll.start()
        _announce(once)
        match_count = 0
        with Work("document") as work, stop_on_signals() as stop:

            def on_matches(matches: list[Match]) -> None:
                with work.aside():
                    delivery(matches)

            def on_progress(done: Progress) -> None:
                nonlocal match_count
                match_count += done.matches
                work.advance(done.documents, note=plural(match_count, "match", "matches"))
                if poll is not None and done.documents:
                    # Spark never reads again what the engine has committed.
                    poll.spool.trim(broker.engine.position)

            summary = run_pipeline(
                session,
                broker.engine,
                sources,
                directory / "checkpoint",
                once=once,
                on_matches=on_matches,
                on_progress=on_progress,
                stop=stop,
            )
    except (ValueError, FileNotFoundError, JavaError) as error:
        raise Failed(str(error)) from None
    except PipelineError as error:
        if isinstance(error.__cause__, ReaderGone | Failed):
            raise error.__cause__ from None
        log = f" (Spark's log: {directory / 'spark.log'})" if keep else ""
        raise Failed(f"{error}{log}") from error.__cause__
    finally:
        if session is not None:
            stop_session(session)
    _report(summary, sources, documents, xml_options or {}, brief=brief)
    if once and stop.signal is not None:
        goes_on = "; the next run with this --state goes on" if keep else ""
        raise Stopped(f"stopped before all was read{goes_on}", stop.signal)
    return summary.documents


def _fetch(poll: Polling) -> None:
    with stage(f"fetching {plural(len(poll.spool.feeds()), 'feed')}", seen_only=True):
        poll.once()


def _announce(once: bool) -> None:
    if not (once and interactive()):  # then the line of progress suffices
        console.print("running" if once else "running; stop with Ctrl-C")


def _sources(session: Session, path: Path, xml_options: dict[str, Any]) -> Iterator[Source]:
    """The sources for a path of --documents: XML files, JSON lines, or both in a directory."""
    from broker.spark.sources import json_source, xml_source

    lines, files = path.suffix == ".jsonl", path.suffix != ".jsonl"
    if path.is_dir():
        lines = next(path.glob("*.jsonl"), None) is not None
        files = next(path.rglob("*.xml"), None) is not None
        if not lines and not files:
            console.print(f"{path}: no .xml or .jsonl file is there yet")
            lines = files = True
    if lines:
        yield json_source(session, path)
    if files:
        yield xml_source(session, path, **xml_options)


def _report(
    summary: Summary,
    sources: Sequence[Source],
    documents: Sequence[Path],
    xml: dict[str, Any],
    *,
    brief: bool,
) -> None:
    """Print the totals of a run, and unexpected properties of its documents."""
    from broker.spark.jsonlines import SUFFIX, unfinished

    documents_count = plural(summary.documents, "document")
    matches_count = plural(summary.matches, "match", "matches")
    if not brief:
        console.print(f"{documents_count}, {matches_count} in {summary.elapsed:.1f} s")
    xpath = xml.get("timestamp")
    for name in dict.fromkeys(source.name for source in sources if source.name and xpath):
        if undated := summary.undated.get(name, 0):
            console.print(
                f"{name}: --timestamp {xpath} finds no date in {plural(undated, 'document')}: "
                "the time of the file counted instead",
            )
    for path in documents:
        if path.is_dir() or path.suffix == SUFFIX:
            for file in unfinished(path):
                console.print(f"{file}: its last line is torn, and is read once it is whole")
