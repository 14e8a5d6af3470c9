"""`broker unsubscribe`, `pause`, `resume`: one subscription, several, or all of a prefix."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from broker.cli.progress import Work, quiet_option
from broker.cli.remote.client import Service, object_of, part, say, with_service
from broker.cli.remote.subscriptions import SINGLY
from broker.cli.shared import Failed, for_each, plural

_AT_ONCE = 5_000
"""Subscriptions that are changed by one request: documents wait for as long as it takes."""

_ids_argument = click.argument("ids", metavar="ID...", nargs=-1)
_prefix_option = click.option(
    "--prefix", metavar="TEXT", help="All whose ids begin so, beside those that are named."
)


class Bulk:
    """A change of many subscriptions: `path` is where it is asked for, `past` what they are then.
    `body` goes with each request."""

    def __init__(self, service: Service, path: str, past: str, **body: Any) -> None:
        self._service = service
        self._path = f"/v1/subscriptions/{path}"
        self._past = past
        self._body = body

    def ask(self, **which: Any) -> dict[str, Any]:
        return object_of(self._service.post(self._path, self._body | which))

    def count(self, prefix: str) -> int:
        """How many there are of a prefix."""
        reply = self.ask(prefix=prefix, limit=1, dry_run=True)
        return len(reply["changed"]) + int(reply["unchanged"]) + int(reply["left"])

    def named(self, ids: tuple[str, ...]) -> None:
        """Do it for very many that are named. Raises Failed at the end if some are unknown."""
        wanted = [*dict.fromkeys(ids)]
        parts = [wanted[at : at + _AT_ONCE] for at in range(0, len(wanted), _AT_ONCE)]
        unknown = self._run("", len(wanted), (self.ask(ids=ids) for ids in parts))
        if unknown:
            shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
            raise Failed(f"{plural(len(unknown), 'id')} nobody has: {shown}")

    def all_of(self, prefix: str, total: int) -> None:
        """Do it for those of a prefix."""
        self._run(f"{prefix}: ", total, self._pages(prefix))

    def _pages(self, prefix: str) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            reply = self.ask(prefix=prefix, after=after, limit=_AT_ONCE)
            yield reply
            if not reply["left"]:
                return
            after = reply["last"]

    def _run(self, label: str, total: int, answers: Iterator[dict[str, Any]]) -> list[str]:
        """Say what became of them, also where it was not done to the end; the unknown ids."""
        changed = unchanged = 0
        unknown: list[str] = []
        with Work("subscription", total=total) as work:
            try:
                for reply in answers:
                    for id in reply["changed"] if total <= SINGLY else ():
                        say(f"{id}: {self._past}")
                    changed += len(reply["changed"])
                    unchanged += reply["unchanged"]
                    unknown += reply["unknown"]
                    work.advance(len(reply["changed"]) + reply["unchanged"])
            except BaseException:
                done = f"{label}{changed:,} of {plural(total, 'subscription')} {self._past}"
                say(f"{done}; given again, it goes on with the others")
                raise
        same = f", {unchanged:,} as before" if unchanged else ""
        said = f" {self._past}{same}" if changed or same else ""
        say(f"{label}{plural(changed, 'subscription')}{said}")
        return unknown


def _for_all(
    bulk: Bulk,
    ids: tuple[str, ...],
    prefix: str | None,
    one: Callable[[str], str],
    confirm: Callable[[int], None] = lambda total: None,
) -> None:
    """Do it for those that are named, and for those of a prefix, of which, where they are many,
    only their number is said.

    Raises Failed at the end if some failed; what was done stays done, also after Ctrl-C.
    """
    if not ids and prefix is None:
        raise click.UsageError("give the ids of subscriptions, or --prefix")
    total = 0
    if prefix is not None:
        total = bulk.count(prefix)
        confirm(total)
    if len(ids) > SINGLY:
        bulk.named(ids)
    elif ids:
        for_each(ids, one)
    if prefix is not None:
        bulk.all_of(prefix, total)


@click.command()
@_ids_argument
@_prefix_option
@click.option("--yes", is_flag=True, help="Do not ask, on a terminal, before all of a prefix go.")
@click.option(
    "--pending",
    type=click.Choice(["deliver", "drop"]),
    default="deliver",
    show_default=True,
    help="What becomes of matches that its own channels have not delivered yet.",
)
@quiet_option
@with_service
def unsubscribe(
    service: Service, ids: tuple[str, ...], prefix: str | None, yes: bool, pending: str
) -> None:
    """Drop subscriptions.

    \b
    broker unsubscribe same-page
    broker unsubscribe --prefix news- --pending drop
    """

    def drop(id: str) -> str:
        service.delete(f"/v1/subscriptions/{part(id)}", pending=pending)
        return f"{id}: unsubscribed"

    def confirm(total: int) -> None:
        if yes or not total or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return
        which = f"whose ids begin with {prefix}" if prefix else "there are, all of them"
        question = f"Drop the {plural(total, 'subscription')} {which}?"
        if not click.confirm(question, err=True):
            raise Failed("nothing was unsubscribed")

    bulk = Bulk(service, "unsubscribe", "unsubscribed", pending=pending)
    _for_all(bulk, ids, prefix, drop, confirm)


@click.command()
@_ids_argument
@_prefix_option
@quiet_option
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

    _for_all(Bulk(service, "pause", "paused"), ids, prefix, one)


@click.command()
@_ids_argument
@_prefix_option
@quiet_option
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
        reply = object_of(service.post(f"{path}/resume"))
        return f"{id}: {reply['status']}{_missed(reply)}"

    _for_all(Bulk(service, "resume", "resumed"), ids, prefix, one)


def _missed(reply: dict[str, Any]) -> str:
    if not reply["gaps"]:
        return ""
    gap = reply["gaps"][-1]
    first, behind = gap["first_doc"], gap["to_doc"]
    if behind is None:
        return ""
    said, missed = f"; it counts from document {behind:,} on, like a new one", behind - first
    if not missed:
        return f"{said}; no document has passed it by"
    which = f"{first:,}" if missed == 1 else f"{first:,} to {behind - 1:,}"
    return f"{said}; it has not seen {plural(missed, 'document')}: {which} ({gap['reason']})"
