"""`broker run`: subscriptions over documents and feeds, through the Spark pipeline."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from broker.broker import Broker
from broker.cli.shared import (
    Delivery,
    DurationType,
    Failed,
    console,
    format_option,
    lateness_option,
    open_broker,
    out_option,
    progress,
    query_files,
    state_option,
    tell_dead_letters,
)
from broker.output import ReaderGone
from feeds.fetch import Fetcher, local_path
from feeds.opml import OpmlError, read_opml
from feeds.poll import Poller
from feeds.spool import Spool, SpoolError


@click.command()
@query_files
@click.option(
    "--documents",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A directory of .xml files (picked up as they arrive: move them in when complete), or a .jsonl file or directory of "
    'them, whose lines are {"id", "stream", "timestamp", "xml"}. May be given several times.',
)
@click.option(
    "--feeds",
    multiple=True,
    metavar="URL|FILE",
    help="A feed's URL or file, or an OPML file that lists feeds. May be given several times.",
)
@state_option
@click.option("--once", is_flag=True, help="Process what is there, then stop.")
@out_option
@format_option
@click.option("--stream", default="S", show_default=True, help="Stream of the .xml files.")
@click.option(
    "--timestamp",
    metavar="XPATH",
    help="Where an .xml document holds its time (a date, or seconds); else the file's time counts.",
)
@click.option("--split", metavar="NAME", help="Make each element NAME of an .xml file a document.")
@click.option(
    "--interval",
    type=DurationType(),
    default="15 min",
    show_default=True,
    help="Time between two fetches of a feed.",
)
@lateness_option
@click.option("--master", help="Spark master; by default Spark runs in this process's machine.")
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
    interval: int,
    lateness: int,
    master: str | None,
) -> None:
    """Run the subscriptions in QUERIES over documents and feeds.

    Each match is written as it is found. With --state the command may be stopped or killed at any
    time; started again, it goes on where it was: nothing is lost and nothing found twice.
    """
    if not documents and not feeds:
        raise click.UsageError("nothing to read: give --documents or --feeds, or both")
    with ExitStack() as stack:
        if state is None:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="broker-"))
            directory = Path(scratch)
        else:
            directory = state
        broker = stack.enter_context(open_broker(directory, lateness, queries))
        delivery = Delivery(broker, out, form)
        delivery.pending()
        poll = None
        if feeds:
            poll = stack.enter_context(Polling(directory, feed_addresses(feeds), interval))
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
        tell_dead_letters(broker.dead_letters()[before:], state)


def feed_addresses(feeds: Sequence[str]) -> list[str]:
    """The feeds that the user named, with OPML files replaced by what they list."""
    addresses: list[str] = []
    for feed in feeds:
        path = local_path(feed)
        if path is None:
            addresses.append(feed)
            continue
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Failed(f"--feeds {feed}: {error.strerror}") from None
        if b"<opml" not in data[:4096].lower():
            addresses.append(path.absolute().as_uri())
            continue
        try:
            listed = read_opml(data, path.absolute().as_uri())
        except OpmlError as error:
            raise Failed(f"--feeds {feed}: {error}") from None
        addresses += [entry.url for entry in listed]
        console.print(f"{feed}: {len(listed)} feeds", markup=False)
    if not addresses:
        raise Failed("--feeds names no feed")
    return addresses


class Polling:
    """Fetches feeds into the spool of a state directory: at once, or in a thread of its own.

    What the user typed on the command line may be on this machine or its network, and is fetched
    from there; where a public server redirects to is not.
    """

    def __init__(self, directory: Path, addresses: Sequence[str], interval: int) -> None:
        try:
            self.spool = Spool(directory / "spool.sqlite")
        except SpoolError as error:
            raise Failed(str(error)) from None
        self.addresses = tuple(addresses)
        self.fetcher = Fetcher(allow_private=True)
        self.poller = Poller(
            self.spool, self.fetcher, addresses, interval=max(1.0, interval / 1_000_000)
        )
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._loop, name="feeds", daemon=True)
        self.failure: BaseException | None = None

    def __enter__(self) -> Polling:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        if self.thread.ident is not None:
            self.thread.join(timeout=60)
        self.fetcher.close()
        self.spool.close()

    def wave(self) -> None:
        """Fetch what is due, and say what went wrong."""
        wave = self.poller.wave()
        for feed, problem in wave.problems:
            console.print(f"{feed}: {problem}", markup=False)
        if wave.fetched:
            console.print(f"fetched {wave.fetched} feeds: {wave.rows} new items")

    def start(self) -> None:
        self.thread.start()

    def _loop(self) -> None:
        try:
            while not self.stop.is_set():
                self.wave()
                wait = self.poller.wait()
                if wait is None:
                    console.print("no feed is left to fetch")
                    return
                self.stop.wait(wait)
        except BaseException as error:
            self.failure = error
            console.print(f"fetching stopped: {error}", markup=False)


def pipe(
    broker: Broker,
    directory: Path,
    delivery: Callable[..., None],
    *,
    documents: Sequence[Path] = (),
    xml_options: dict[str, object] | None = None,
    poll: Polling | None = None,
    once: bool,
    master: str | None = None,
    keep: bool = True,
) -> int:
    """Run the pipeline until it is done or told to stop; the number of documents processed.

    `keep` says that the directory stays, so that messages may point there.
    """
    # Spark takes a second to import; commands that fail before need not wait for it.
    from broker.spark.failure import PipelineError
    from broker.spark.gateway import JavaError
    from broker.spark.pipeline import Progress, run_pipeline, stop_on_signals
    from broker.spark.session import start_session, stop_session
    from broker.spark.sources import Source, json_source, xml_source
    from feeds.source import FeedSpool

    if poll is not None and once:
        poll.wave()
    console.print("starting Spark")
    try:
        session = start_session(master, state_dir=directory)
    except JavaError as error:
        raise Failed(str(error)) from None
    try:
        sources = []
        for path in documents:
            if path.suffix == ".jsonl" or (path.is_dir() and any(path.glob("*.jsonl"))):
                sources.append(json_source(session, path))
            else:
                sources.append(xml_source(session, path, **(xml_options or {})))  # type: ignore[arg-type]
        if poll is not None:
            session.dataSource.register(FeedSpool)
            spool = str(poll.spool.path.absolute())
            frame = session.readStream.format("feed_spool").option("path", spool).load()
            sources.append(Source(f"feeds {spool}", frame))
            if not once:
                poll.start()
        console.print("running" if once else "running; stop with Ctrl-C")
        with progress() as update, stop_on_signals() as stop:

            def on_progress(done: Progress) -> None:
                update(done.documents, done.matches)
                if poll is not None and done.documents:
                    # What the engine has committed, Spark need not be able to read again.
                    poll.spool.trim(broker.engine.applied(poll.addresses))

            summary = run_pipeline(
                session,
                broker.engine,
                sources,
                directory / "checkpoint",
                once=once,
                on_matches=delivery,
                on_progress=on_progress,
                stop=stop,
            )
    except (ValueError, FileNotFoundError) as error:
        raise Failed(str(error)) from None
    except PipelineError as error:
        if isinstance(error.__cause__, ReaderGone):
            raise error.__cause__ from None
        log = f" (Spark's log: {directory / 'spark.log'})" if keep else ""
        raise Failed(f"{error}{log}") from error.__cause__
    finally:
        stop_session(session)
    console.print(
        f"{summary.documents:,} documents, {summary.matches:,} matches in {summary.elapsed:.1f} s"
    )
    return summary.documents
