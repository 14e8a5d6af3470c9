"""`broker demo`: the whole pipeline over the sample feeds, with nothing to set up."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import click

import feeds
from broker.cli.polling import Polling
from broker.cli.query_files import read_queries
from broker.cli.run import pipe
from broker.cli.shared import Delivery, StateType, console, open_broker, plural
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
def demo(state: Path | None) -> None:
    """Watch subscriptions find items that belong together in the sample feeds.

    Serves the sample feeds from this machine, fetches them as any feed is fetched, runs them
    through the pipeline with the subscriptions in demo.xscl, and shows each match as it is found.
    """
    with ExitStack() as stack:
        if state is None:
            scratch = tempfile.TemporaryDirectory(prefix="broker-demo-")
            _show(Path(stack.enter_context(scratch)), keep=False)
        else:
            _show(state, keep=True)


def _show(directory: Path, *, keep: bool) -> None:
    began = time.monotonic()
    queries = SAMPLES / "demo.xscl"
    opml = SAMPLES / "subscriptions.opml"
    listed = read_opml(opml.read_bytes(), opml.as_uri())
    # The samples are two weeks old when they are first seen, in whatever order they are fetched.
    with open_broker(directory, UNBOUNDED, read_queries([queries])) as broker:
        console.print(
            f"{len(listed)} sample feeds, {len(broker.subscriptions)} subscriptions from {queries}"
        )
        delivery = Delivery(broker, "-", "text")
        counts: Counter[str] = Counter()

        def deliver(matches: list[Match]) -> None:
            counts.update(match.query for match in matches)
            delivery(matches)

        with FeedServer(SAMPLES) as server:
            addresses = [server.url(Path(entry.url).name) for entry in listed]
            with Polling(directory, addresses, 60_000_000, allow_private=True) as poll:
                documents = pipe(broker, directory, deliver, poll=poll, once=True, keep=keep)
    total = sum(counts.values())
    found = f"{plural(documents, 'item')}, {plural(total, 'match', 'matches')}"
    console.print(f"\n[bold]{found}, {time.monotonic() - began:.1f} s[/bold]")
    for query, count in counts.most_common():
        console.print(f"  {count:4}  {query}")
    command = shlex.quote(str(Path(sys.argv[0])))
    if keep:
        console.print(f"\nThe state is in {directory}", markup=False)
    console.print(
        "\nNext:\n"
        f"  {command} explain {queries} --query {next(iter(counts), 'ID')}\n"
        f"  {command} run {queries} --feeds {opml} --once --format jsonl\n"
        "  write your own subscription: the README shows one in five minutes",
        markup=False,
    )
