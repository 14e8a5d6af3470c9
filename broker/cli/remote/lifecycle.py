"""`broker unsubscribe`, `pause`, `resume`: one subscription, several, or all of a prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from broker.cli.progress import Work
from broker.cli.remote.client import Service, object_of, part, say, with_service
from broker.cli.remote.subscriptions import SINGLY, subscriptions
from broker.cli.shared import for_each, plural

_ids_argument = click.argument("ids", metavar="ID...", nargs=-1)
_prefix_option = click.option(
    "--prefix", metavar="TEXT", help="All whose ids begin so, beside those that are named."
)


def _for_all(
    service: Service, ids: tuple[str, ...], prefix: str | None, one: Callable[[str], str]
) -> None:
    """Do it for those that are named, and for those of a prefix, of which only their number is
    said.

    Raises Failed at the end if some failed; what was done stays done, also after Ctrl-C.
    """
    if not ids and prefix is None:
        raise click.UsageError("give the ids of subscriptions, or --prefix")
    if ids:
        for_each(ids, one)
    if prefix is None:
        return
    found = [each["id"] for each in subscriptions(service, prefix) if each["id"] not in ids]
    if len(found) <= SINGLY:
        for_each(found, one)
        say(f"{prefix}: {plural(len(found), 'subscription')}")
        return
    done = 0
    with Work("subscription", total=len(found)) as work:
        try:
            for id in found:
                one(id)
                done += 1
                work.advance(1)
        finally:
            whole = f"{done:,} of " if done < len(found) else ""
            say(f"{prefix}: {whole}{plural(len(found), 'subscription')}")


@click.command()
@_ids_argument
@_prefix_option
@click.option(
    "--pending",
    type=click.Choice(["deliver", "drop"]),
    default="deliver",
    show_default=True,
    help="What becomes of matches that its own channels have not delivered yet.",
)
@with_service
def unsubscribe(service: Service, ids: tuple[str, ...], prefix: str | None, pending: str) -> None:
    """Drop subscriptions.

    \b
    broker unsubscribe same-page
    broker unsubscribe --prefix news- --pending drop
    """

    def drop(id: str) -> str:
        service.delete(f"/v1/subscriptions/{part(id)}", pending=pending)
        return f"{id}: unsubscribed"

    _for_all(service, ids, prefix, drop)


@click.command()
@_ids_argument
@_prefix_option
@with_service
def pause(service: Service, ids: tuple[str, ...], prefix: str | None) -> None:
    """Let subscriptions find nothing until they are resumed; what they miss is recorded.

    \b
    broker pause same-page
    broker pause --prefix news-
    """

    def one(id: str) -> str:
        path = f"/v1/subscriptions/{part(id)}"
        before = service.get(path)["status"]
        now = object_of(service.post(f"{path}/pause"))["status"]
        return f"{id}: {now}" + (", as it was" if before == now else "")

    _for_all(service, ids, prefix, one)


@click.command()
@_ids_argument
@_prefix_option
@with_service
def resume(service: Service, ids: tuple[str, ...], prefix: str | None) -> None:
    """Let paused or suspended subscriptions go on, from the next document on as if they were new:
    what came before joins nothing that comes now.

    \b
    broker resume same-page
    broker resume --prefix news-
    """

    def one(id: str) -> str:
        path = f"/v1/subscriptions/{part(id)}"
        if service.get(path)["status"] == "active":
            return f"{id}: active, as it was"
        told = object_of(service.post(f"{path}/resume"))
        return f"{id}: {told['status']}{_missed(told)}"

    _for_all(service, ids, prefix, one)


def _missed(told: dict[str, Any]) -> str:
    if not told["gaps"]:
        return ""
    gap = told["gaps"][-1]
    first, behind = gap["first_doc"], gap["to_doc"]
    if behind is None:
        return ""
    said, missed = f"; it counts from document {behind:,} on, like a new one", behind - first
    if not missed:
        return f"{said}; no document has passed it by"
    which = f"{first:,}" if missed == 1 else f"{first:,} to {behind - 1:,}"
    return f"{said}; it has not seen {plural(missed, 'document')}: {which} ({gap['reason']})"
