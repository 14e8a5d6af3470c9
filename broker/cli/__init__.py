"""The `broker` command: a thin shell over the library, the pipeline and the service.

What was asked for goes to standard output and nothing else does; messages go to standard error. Exit
codes: 0 for success, 1 for a failure while running, 2 for a wrong command line, wrong queries or
wrong settings, 130 and 143 where Ctrl-C or SIGTERM ended it.

Nothing heavy is imported before it is known which command is meant; see `broker.cli.commands`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from broker.cli.leaving import INTERRUPTED, leave


def main() -> None:
    """Entry point: turns what was raised into a message and an exit code."""
    if threading.current_thread() is not threading.main_thread():
        sys.exit(_run())
    # As Ctrl-C, so that what is temporary goes; 128 and the signal's number, as shells have it.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, leave)
    try:
        sys.exit(_run())
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _run() -> int:
    try:
        from broker.cli.commands import cli

        code = cli(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        return _tell(error)


def _tell(error: BaseException) -> int:
    """Say what was raised; the exit code. What nobody foresaw is raised again."""
    import click

    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo(INTERRUPTED, err=True)
        return 130
    from broker.cli.shared import Failed
    from broker.text.formats import ReaderGone
    from broker.text.printable import visible_lines
    from xscl.errors import XsclError

    match error:
        case XsclError():
            click.echo(visible_lines(str(error)), err=True)
            return 2
        case Failed():
            click.echo(f"broker: {visible_lines(str(error))}", err=True)
            return error.code
        case ReaderGone():
            _forget_output()
            return 0
        case OSError():
            # Files and the network have messages of their own; what is left is the output, full or
            # so.
            what = f"{error.filename or 'output'}: {error.strerror or error}"
            click.echo(f"broker: {visible_lines(what)}", err=True)
            _forget_output()
            return 1
    raise error


def _forget_output() -> None:
    """Nothing more can be written there, not even what is left in the buffer."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
