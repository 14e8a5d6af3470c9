"""The table of all commands and their modules. Only the module of the command that runs is
imported, and the help of `broker` itself comes from the table.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import click

from broker.cli.signals import interruptible

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Try it": {
        "demo": ("demo", "Watch subscriptions find items that belong together in the sample feeds"),
    },
    "Queries": {
        "new": ("remote.new", "Write a query for something that is often wanted"),
        "check": ("remote.check", "Parse and validate query files"),
        "explain": ("remote.explain", "Show what queries find"),
        "shell": (
            "remote.shell",
            "Type queries and see at once what they find",
        ),
        "fmt": ("queries", "Print query files in canonical form"),
    },
    "A cluster": {
        "cluster": ("cluster", "Start a cluster of Spark's own kind, and check any"),
    },
    "The service": {
        "serve": ("serve", "Run the service"),
        "open": ("remote.browser", "Show the service in a browser"),
        "status": ("remote.status", "Show how the service is doing"),
        "events": (
            "remote.events",
            "List suspensions, disabled channels and other events for owners",
        ),
        "config": ("config", "Check and show the settings of the service"),
        "tokens": (
            "remote.tokens",
            "Make and manage tokens that may do less than the service's own",
        ),
        "backup": ("remote.state", "Copy the state of the running service into DIRECTORY"),
        "restore": ("remote.state", "Make a state directory from the backup in DIRECTORY"),
    },
    "What the service finds": {
        "subscribe": (
            "remote.subscriptions",
            "Add the subscriptions in query files to the service",
        ),
        "unsubscribe": ("remote.lifecycle", "Drop subscriptions"),
        "pause": ("remote.lifecycle", "Pause subscriptions until they are resumed"),
        "resume": ("remote.lifecycle", "Resume paused or suspended subscriptions"),
        "list": ("remote.listing", "List the subscriptions"),
        "why": ("remote.why", "Tell why a query has matched, has not, or not yet"),
        "matches": ("remote.matches", "Show the matches that the service holds"),
        "tail": ("remote.matches", "Show matches as they are found"),
        "channels": ("remote.channels", "Add and manage the channels that deliver matches"),
    },
    "What the service reads": {
        "streams": (
            "remote.streams",
            "Show the streams, or which paths the documents of stream NAME have",
        ),
        "suggest": (
            "remote.streams",
            "Suggest joins within one STREAM, or between several, each with a query",
        ),
        "publish": ("remote.publish", "Publish documents to a STREAM"),
        "feeds": ("feeds", "Add, remove and look after the feeds that a broker watches"),
        "deadletters": ("remote.deadletters", "List, resend and drop dead letters"),
    },
    "Your shell": {
        "completion": ("completion", "Print a script that completes commands, options, ids"),
    },
    "Without the service": {
        "run": ("run", "Run the subscriptions in QUERIES over documents and feeds"),
        "replay": ("replay", "Replay a feed ARCHIVE through the subscriptions in QUERIES"),
    },
}
"""Per section of the help: each command, the module of this package that defines it under its name
(`list` as `list_command`), and the beginning of its help."""


class LazyGroup(click.Group):
    """A group whose commands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in SECTIONS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for commands in SECTIONS.values():
            if cmd_name in commands:
                module = import_module(f"broker.cli.{commands[cmd_name][0]}")
                command = getattr(module, f"{cmd_name}_command", None) or getattr(module, cmd_name)
                assert isinstance(command, click.Command)
                return command
        return None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Otherwise click would end with an exit code of its own.
            from broker.text.formats import ReaderGone

            raise ReaderGone from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from xscl.syntax.nearest import did_you_mean

            near = did_you_mean(args[0], self.list_commands(ctx))
            if near is None:
                raise
            message = f"{error.message} {near[0].upper()}{near[1:]}"
            raise click.UsageError(message, error.ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])


def _compiled() -> str:
    """Behind the version, whether the modules of the hot path are compiled (see setup.py)."""
    module = Path(__file__).parents[1] / "shared_match"
    return (
        ", compiled" if any(map(Path.is_file, map(module.with_suffix, EXTENSION_SUFFIXES))) else ""
    )


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    package_name="xml-stream-broker",
    prog_name="broker",
    message=f"%(prog)s, version %(version)s{_compiled()}",
)
def cli() -> None:
    """Find the documents that belong together, across RSS/Atom feeds and XML streams.

    Subscriptions are XSCL queries. Start with `broker demo`; `broker serve` is what one leaves
    running, and most commands talk to it.
    """
    # The command's module has been imported, so a signal may now raise an exception.
    interruptible()
