"""`--offline`: changes of subscriptions while the service is down, in its state directory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from broker.cli.config import load_settings
from broker.cli.shared import DEFAULT_STATE, Failed, console, plural

if TYPE_CHECKING:
    from broker.service.bulk import Change
    from broker.service.core.core import Core

P = ParamSpec("P")
R = TypeVar("R")


def or_offline(
    change: Change, participle: str
) -> Callable[[Callable[P, R]], Callable[..., R | None]]:
    """Adds the option `--offline` to a command that changes subscriptions through a service."""

    def decorate(function: Callable[P, R]) -> Callable[..., R | None]:
        @click.option(
            "--offline",
            is_flag=True,
            help="The service is down: change its state directory, without matching anything.",
        )
        @wraps(function)
        def command(*args: Any, offline: bool = False, **named: Any) -> R | None:
            if not offline:
                return function(*args, **named)
            _change(change, participle, named)
            return None

        return command

    return decorate


def refuse_all(prefix: str | None, yes: bool) -> None:
    """Fail if all are to go by an empty prefix, which a variable of a script has that is not set,
    and nobody can be asked."""
    if prefix == "" and not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("an empty --prefix is that of all subscriptions: add --yes")


def _change(change: Change, participle: str, named: dict[str, Any]) -> None:
    from broker.service.access.access import Access
    from broker.service.bulk import Bulk, Selection
    from broker.service.tenants import Tenants
    from broker.state.store import StateError

    ids, prefix = named["ids"], named["prefix"]
    if named["url"]:
        raise click.UsageError("--offline is for a state directory on this machine, not for --url")
    if not ids and prefix is None:
        raise click.UsageError("give the ids of subscriptions, or --prefix")
    refuse_all(prefix, named.get("yes", True))
    if prefix is not None and not named.get("yes", True) and sys.stdin.isatty():
        click.confirm(f"Drop all subscriptions whose ids begin with {prefix!r}?", abort=True)
    core = _opened(named["state"] or Path(DEFAULT_STATE))
    unknown: list[str] = []
    try:
        access = Access(core.state, core.now)
    except StateError as error:
        core.close()
        raise Failed(str(error)) from None
    try:
        bulk = Bulk(core, access, Tenants(core, access))
        selections = [Selection(ids=tuple(dict.fromkeys(ids)))] if ids else []
        if prefix is not None:
            selections.append(Selection(prefix=prefix))
        for selection in selections:
            done = bulk.change(change, selection, pending=named.get("pending", "deliver"))
            unknown += done.unknown
            same = f", {done.unchanged:,} as before" if done.unchanged else ""
            console.print(f"{plural(len(done.changed), 'subscription')} {participle}{same}")
    finally:
        access.close()
        core.close()
    if unknown:
        raise Failed(f"{plural(len(unknown), 'id')} nobody has: {', '.join(unknown[:5])}")


def _opened(state: Path) -> Core:
    from broker.delivery import MailboxError
    from broker.service.core.core import Core
    from broker.state.store import StateError
    from feeds.spool import SpoolError

    if not (state / "broker.duckdb").exists():
        raise Failed(f"{state}: there is no state of a service; give its directory by --state")
    try:
        return Core(load_settings(None, {"state": str(state)}))
    except (StateError, SpoolError, MailboxError, ValueError) as error:
        raise Failed(str(error)) from None
