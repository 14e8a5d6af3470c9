"""`broker demo`: the whole pipeline over the sample feeds, without any setup."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import click
from rich.text import Text

import feeds
from broker.cli.on_terminal import colour_of, headings
from broker.cli.opening import open_broker
from broker.cli.output import Delivery
from broker.cli.progress import stage
from broker.cli.query_files import read_queries
from broker.cli.run import pipe
from broker.cli.shared import StateType, console, pipeline_option, plural
from broker.model import UNBOUNDED, Match
from feeds.opml import read_opml
from feeds.sample_server import FeedServer

SAMPLES = Path(feeds.__file__).parent / "samples"


@click.command()
@click.option(
    "--state",
    type=StateType(),
    help="Keep the state here; by default in a temporary directory, which goes at the end.",
)
@pipeline_option
def demo(state: Path | None, pipeline: str) -> None:
    """Watch subscriptions find items that belong together in the sample feeds.

    Serves the sample feeds from this machine, fetches them as any feed is fetched, runs them
    through the pipeline with the subscriptions in demo.xscl, and shows each match as it is found.
    """
    with ExitStack() as stack:
        if state is None:
            scratch = tempfile.TemporaryDirectory(prefix="broker-demo-")
            _show(Path(stack.enter_context(scratch)), pipeline, keep=False)
        else:
            _show(state, pipeline, keep=True)


def _show(directory: Path, pipeline: str, *, keep: bool) -> None:
    from broker.cli.polling import Polling

    start = time.monotonic()
    queries = SAMPLES / "demo.xscl"
    opml = SAMPLES / "subscriptions.opml"
    entries = read_opml(opml.read_bytes(), opml.as_uri())
    files = read_queries([queries])
    # The samples span two weeks and are fetched in any order, so no document may be too late.
    with open_broker(directory, UNBOUNDED, files) as broker:
        console.print(
            f"{len(entries)} sample feeds, {len(broker.subscriptions)} subscriptions from "
            f"{_shown(queries)}",
        )
        delivery = Delivery(broker, "-", "text", files)
        counts: Counter[str] = Counter()

        def deliver(matches: list[Match]) -> None:
            counts.update(match.query for match in matches)
            delivery(matches)

        with ExitStack() as stack:
            with stage(f"serving {plural(len(entries), 'feed')} from this machine", seen_only=True):
                server = stack.enter_context(FeedServer(SAMPLES))
                addresses = [server.url(Path(entry.url).name) for entry in entries]
                poll = stack.enter_context(
                    Polling(directory, addresses, 60_000_000, allow_private=True)
                )
            documents = pipe(
                *(broker, directory, deliver),
                poll=poll,
                once=True,
                pipeline=pipeline,
                keep=keep,
                brief=True,
            )
    total = sum(counts.values())
    totals = f"{plural(documents, 'item')}, {plural(total, 'match', 'matches')}"
    gap = "" if sys.stdout.isatty() else "\n"  # a match on a terminal ends with an empty line
    console.print(Text(f"{gap}{totals}, {time.monotonic() - start:.1f} s", style="bold"))
    descriptions = headings(files) if console.screen.is_terminal else {}
    width = max(map(len, counts), default=0)
    for query, count in counts.most_common():
        line = Text(f"  {count:4}  ").append(query.ljust(width), style=colour_of(query))
        line.append(f"  {descriptions[query]}" if query in descriptions else "", style="dim")
        line.truncate(console.screen.width, overflow="ellipsis")
        line.rstrip()
        console.print(line)
    if keep:
        console.print(f"\nThe state is in {directory}")
    _suggest(next(iter(counts), "ID"), queries, opml)


def _suggest(query: str, queries: Path, opml: Path) -> None:
    """Print commands to try next."""
    command = shlex.quote(_shown(Path(sys.argv[0])))
    file, feeds = shlex.quote(_shown(queries)), shlex.quote(_shown(opml))
    console.print(Text("\nNext:", style="bold"))
    explain = f"{command} explain {file}", f"--query {query}"
    run = f"{command} run {file}", f"--feeds {feeds}", "--once --format jsonl"
    for what, parts in (
        ("see how the broker matches one of them", explain),
        ("the same matches for programs", run),
    ):
        line = "  " + " ".join(parts)
        if console.screen.is_terminal and len(line) > console.screen.width:
            line = "  " + " \\\n      ".join(parts)
        console.print(Text(f"  # {what}", style="dim"))
        console.print(line)
    console.print("  # then write your own subscription: the README shows one in five minutes")


def _shown(path: Path) -> str:
    """The path relative to the working directory, if it is below that."""
    with suppress(ValueError):
        return str(path.absolute().relative_to(Path.cwd()))
    return str(path)
