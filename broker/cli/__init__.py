"""The `broker` command: a thin shell over the library and the pipeline.

Matches go to standard output and nothing else does; messages go to standard error. Exit codes: 0
for success, 1 for a failure while running, 2 for a wrong command line or wrong queries.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import click

from broker.cli.demo import demo
from broker.cli.feeds import feeds
from broker.cli.queries import check, explain, fmt
from broker.cli.replay import replay
from broker.cli.run import run
from broker.cli.shared import Failed
from broker.output import ReaderGone
from xscl.errors import XsclError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="xml-stream-broker", prog_name="broker")
def cli() -> None:
    """Find the documents that belong together, across RSS/Atom feeds and XML streams.

    Subscriptions are XSCL queries. Start with `broker demo`.
    """


for command in (demo, run, replay, feeds, check, explain, fmt):
    cli.add_command(command)


def main() -> None:
    """Entry point: turns what was raised into a message and an exit code."""
    if threading.current_thread() is threading.main_thread():
        # As Ctrl-C, so that what is temporary goes; 128 and the signal's number, as shells have it.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        code = cli(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("broker: interrupted", err=True)
        sys.exit(130)
    except XsclError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    except Failed as error:
        click.echo(f"broker: {error}", err=True)
        sys.exit(1)
    except ReaderGone:
        _forget_output()
        sys.exit(0)
    except OSError as error:
        # Files and the network have messages of their own; what is left is the output, full or so.
        click.echo(f"broker: {error.filename or 'output'}: {error.strerror or error}", err=True)
        _forget_output()
        sys.exit(1)


def _forget_output() -> None:
    """Nothing more can be written there, not even what is left in the buffer."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
