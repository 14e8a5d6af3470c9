"""The `broker` command: a thin shell over the library, the pipeline and the service.

What was asked for goes to standard output and nothing else does; messages go to standard error.
Exit codes: 0 for success, 1 for a failure while running, 2 for a wrong command line, wrong queries
or wrong settings, 129, 130 and 143 where the end of the terminal, Ctrl-C or SIGTERM ended it.

Nothing heavy is imported before it is known which command is meant; see `broker.cli.commands`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from broker.cli.signals import INTERRUPTED, handled, received

_OURS = ("broker", "feeds", "xscl")


def main() -> None:
    """Entry point: turns what was raised into a message and an exit code."""
    if "_BROKER_NAMES" in os.environ:
        # A shell completes a name, and does not wait for more than this.
        from broker.cli.known_names import tell

        tell()
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
            return _tell(error)
        # Whatever was raised then, it is the signal that ended it.
        if number == signal.SIGINT:
            _say(INTERRUPTED)
        return 128 + number


def _tell(error: BaseException) -> int:
    """Say what was raised; the exit code. What nobody foresaw is raised again."""
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
            _say(INTERRUPTED)
            return 130
        case XsclError():
            _say(visible_lines(str(error)))
            return 2
        case Failed():
            _say(f"broker: {visible_lines(str(error))}")
            return error.code
        case ReaderGone() | BrokenPipeError():
            forget_output()
            return 0
        case ModuleNotFoundError() if error.name and error.name.split(".")[0] not in _OURS:
            _say(
                f"broker: the Python package {error.name.split('.')[0]} is missing; install what "
                "this"
                " program needs: pip install -r requirements.lock, or pip install xml-stream-broker"
            )
            return 1
        case OSError():
            # Files and the network have messages of their own; what is left is the output, full or
            # so.
            what = f"{error.filename or 'output'}: {error.strerror or error}"
            _say(f"broker: {visible_lines(what)}")
            forget_output()
            return 1
    raise error


def _say(text: str) -> None:
    """A message on standard error."""
    import click

    click.echo(text, err=True)
