"""`broker backup` and `broker restore`: copies of a state directory."""

from __future__ import annotations

from pathlib import Path

import click

from broker.cli.progress import Work, quiet_option, stage
from broker.cli.remote.answers import object_of
from broker.cli.remote.client import Service
from broker.cli.remote.options import with_service
from broker.cli.shared import Failed, StateType, console, plural
from broker.cli.tables import moment
from broker.model import iso_time
from broker.text.units import format_size

_MB = 1_000_000


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@quiet_option
@with_service
def backup(service: Service, directory: Path) -> None:
    """Copy the state of the running service into DIRECTORY, which is new or empty.

    It is the service that writes it, on its own machine. It goes on accepting documents meanwhile.
    The copy holds the token: keep it as safe as the state itself.

    \b
    broker backup /var/backups/broker/monday
    """
    with stage(f"copying the state into {directory}", seen_only=True):
        reply = object_of(service.post("/v1/backup", {"directory": str(directory.absolute())}))
    size = format_size(sum(reply["files"].values()))
    files = plural(len(reply["files"]), "file")
    console.print(f"{reply['directory']}: {files}, {size}, as of {moment(reply['at'])}")


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--state",
    required=True,
    type=StateType(),
    help="The state directory to make; it is new or empty.",
)
@quiet_option
def restore(directory: Path, state: Path) -> None:
    """Make a state directory from the backup in DIRECTORY; no service need be running.

    A backup that was not finished, or is damaged, is refused. What was delivered after it was made
    may be delivered again, under the same ids.

    \b
    broker restore /var/backups/broker/monday --state broker-state
    broker serve --state broker-state
    """
    from broker.delivery import MailboxError
    from broker.service import backup as backups
    from broker.service.core.errors import ServiceError

    try:
        # Each file is read twice: to verify its checksum, and to copy it.
        total = 2 * sum(path.stat().st_size for path in directory.iterdir() if path.is_file())
        with Work("MB", many="MB", total=total // _MB) as work:
            remainder = 0

            def on_bytes(count: int) -> None:
                nonlocal remainder
                megabytes, remainder = divmod(remainder + count, _MB)
                work.advance(megabytes)

            restored = backups.restore(directory, state.absolute(), on_bytes)
    except (ServiceError, MailboxError) as error:
        raise Failed(str(error)) from None
    except OSError as error:
        raise Failed(f"{error.filename or state}: {error.strerror or error}") from None
    as_of = moment(iso_time(restored.at))
    console.print(f"{state}: as of {as_of}; start it with broker serve --state {state}")
