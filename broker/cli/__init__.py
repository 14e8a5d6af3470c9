"""The `broker` command: a thin shell over the library, the pipeline and the service.

Only results go to standard output; messages go to standard error. Exit codes: 0 for success, 1 for
a failure while running, 2 for a wrong command line, wrong queries or wrong settings, and 129, 130
and 143 if the end of the terminal, Ctrl-C or SIGTERM ended the command.

Slow modules are imported only by the command that needs them; see `broker.cli.commands`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress

from broker.cli.signals import INTERRUPTED, handled, received

_OURS = ("broker", "feeds", "xscl")


def main() -> None:
    """Entry point: runs the command and turns exceptions into a message and an exit code."""
    if "_BROKER_NAMES" in os.environ:
        # The completion of a shell: other imports would make it slow.
        from broker.cli.known_names import write_names

        write_names()
        return
    if threading.current_thread() is not threading.main_thread():
        sys.exit(_run())
    with handled():
        sys.exit(_run())


def _run() -> int:
    try:
        from broker.cli.commands import cli
        from broker.cli.streams import prepare

        prepare()
        code = cli(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BaseException as error:
        number = received()
        if number is None:
            return _report(error)
        # Whatever was raised after a signal, the signal ended the command.
        if number == signal.SIGINT:
            # What was being written when the signal came would otherwise follow the message.
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            _print_message(INTERRUPTED)
        return 128 + number


def _report(error: BaseException) -> int:
    """Print the message of an error; returns the exit code. Unexpected errors are raised again."""
    import click

    from broker.cli.shared import Failed
    from broker.cli.streams import forget_output
    from broker.text.formats import ReaderGone
    from broker.text.printable import visible_lines
    from xscl.errors import XsclError

    match error:
        case click.ClickException():
            error.show()
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            _print_message(INTERRUPTED)
            return 130
        case XsclError():
            _print_message(visible_lines(str(error)))
            return 2
        case Failed():
            _print_message(f"broker: {visible_lines(str(error))}")
            return error.code
        case ReaderGone() | BrokenPipeError():
            forget_output()
            return 0
        case ModuleNotFoundError() if error.name and error.name.split(".")[0] not in _OURS:
            _print_message(
                f"broker: the Python package {error.name.split('.')[0]} is missing; install what "
                "this program needs: pip install -r requirements.lock, or pip install "
                "xml-stream-broker"
            )
            return 1
        case OSError():
            # Commands handle errors of files and the network; this one is of the output, such as a
            # full disk.
            what = f"{error.filename or 'output'}: {error.strerror or error}"
            _print_message(f"broker: {visible_lines(what)}")
            forget_output()
            return 1
    raise error


def _print_message(text: str) -> None:
    """Print on standard error."""
    import click

    click.echo(text, err=True)
