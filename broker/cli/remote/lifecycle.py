"""`broker unsubscribe`, `pause` and `resume`: of single subscriptions, or all with a prefix."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from broker.cli.progress import Work, quiet_option
from broker.cli.remote.answers import object_of
from broker.cli.remote.client import Refused, Service, part
from broker.cli.remote.offline import or_offline, refuse_all
from broker.cli.remote.options import with_service
from broker.cli.remote.subscriptions import SINGLY
from broker.cli.shared import Failed, console, for_each, plural

_AT_ONCE = 5_000
"""The number of subscriptions changed by one request, during which documents wait."""

_ids_argument = click.argument("ids", metavar="ID...", nargs=-1)
_prefix_option = click.option(
    "--prefix", metavar="TEXT", help="All whose ids begin so, beside those that are named."
)


class Bulk:
    """One change of many subscriptions. `path` is that of the request, `participle` the word for
    changed ones in messages ("paused"), and `body` is sent with each request."""

    def __init__(self, service: Service, path: str, participle: str, **body: Any) -> None:
        self._service = service
        self._path = f"/v1/subscriptions/{path}"
        self._participle = participle
        self._body = body

    def _request(self, **selection: Any) -> dict[str, Any]:
        return object_of(self._service.post(self._path, self._body | selection))

    def count(self, prefix: str) -> int:
        """The number of subscriptions with a prefix."""
        reply = self._request(prefix=prefix, limit=1, dry_run=True)
        return len(reply["changed"]) + int(reply["unchanged"]) + int(reply["left"])

    def change_ids(self, ids: tuple[str, ...]) -> None:
        """Change those with these ids. Raises Failed at the end if some are unknown."""
        distinct = [*dict.fromkeys(ids)]
        parts = [distinct[at : at + _AT_ONCE] for at in range(0, len(distinct), _AT_ONCE)]
        unknown = self._run("", len(distinct), (self._request(ids=ids) for ids in parts))
        if unknown:
            shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
            raise Failed(f"{plural(len(unknown), 'id')} nobody has: {shown}")

    def change_prefix(self, prefix: str, total: int) -> None:
        """Change those with a prefix, `total` many."""
        self._run(f"{prefix or 'all'}: ", total, self._pages(prefix))

    def _pages(self, prefix: str) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            reply = self._request(prefix=prefix, after=after, limit=_AT_ONCE)
            yield reply
            if not reply["left"]:
                return
            after = reply["last"]

    def _run(self, label: str, total: int, replies: Iterator[dict[str, Any]]) -> list[str]:
        """Send the requests and print the outcome, also if they are interrupted; returns the
        unknown ids."""
        changed = unchanged = 0
        unknown: list[str] = []
        with Work("subscription", total=total) as work:
            try:
                for reply in replies:
                    for id in reply["changed"] if total <= SINGLY else ():
                        console.print(f"{id}: {self._participle}")
                    changed += len(reply["changed"])
                    unchanged += reply["unchanged"]
                    unknown += reply["unknown"]
                    work.advance(len(reply["changed"]) + reply["unchanged"])
            except BaseException:
                done = f"{label}{changed:,} of {plural(total, 'subscription')} {self._participle}"
                console.print(f"{done}; given again, it goes on with the others")
                raise
        same = f", {unchanged:,} as before" if unchanged else ""
        outcome = f" {self._participle}{same}" if changed or same else ""
        console.print(f"{label}{plural(changed, 'subscription')}{outcome}")
        return unknown


def _for_all(
    bulk: Bulk,
    ids: tuple[str, ...],
    prefix: str | None,
    one: Callable[[str], str],
    confirm: Callable[[int], None] = lambda total: None,
) -> None:
    """Change the subscriptions with these ids, by `one` if they are few, and those with the prefix.

    Raises Failed at the end if some failed; completed changes stay, also after Ctrl-C.
    """
    if not ids and prefix is None:
        raise click.UsageError("give the ids of subscriptions, or --prefix")
    total = 0
    if prefix is not None:
        total = bulk.count(prefix)
        confirm(total)
    if len(ids) > SINGLY:
        bulk.change_ids(ids)
    elif ids:
        for_each(ids, lambda id: _with_hint(bulk, id, one))
    if prefix is not None:
        bulk.change_prefix(prefix, total)


def _with_hint(bulk: Bulk, id: str, one: Callable[[str], str]) -> str:
    """Change one. What begins with an unknown id may be what was meant."""
    try:
        return one(id)
    except Refused as error:
        if error.kind != "not-found" or not (count := bulk.count(id)):
            raise
        said = "1 id begins so" if count == 1 else f"{count:,} ids begin so"
        raise Failed(f"{error}; {said}: --prefix {id}") from None


@click.command()
@_ids_argument
@_prefix_option
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask before all of a prefix go: on a terminal, and where it is empty.",
)
@click.option(
    "--pending",
    type=click.Choice(["deliver", "drop"]),
    default="deliver",
    show_default=True,
    help="What becomes of matches that its own channels have not delivered yet.",
)
@quiet_option
@or_offline("unsubscribe", "unsubscribed")
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

    refuse_all(prefix, yes)
    bulk = Bulk(service, "unsubscribe", "unsubscribed", pending=pending)
    _for_all(bulk, ids, prefix, drop, confirm)


@click.command()
@_ids_argument
@_prefix_option
@quiet_option
@or_offline("pause", "paused")
@with_service
def pause(service: Service, ids: tuple[str, ...], prefix: str | None) -> None:
    """Pause subscriptions until they are resumed; the documents that they miss are recorded.

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
@or_offline("resume", "resumed")
@with_service
def resume(service: Service, ids: tuple[str, ...], prefix: str | None) -> None:
    """Resume paused or suspended subscriptions, from the next document on as if they were new:
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
    first, end = gap["first_doc"], gap["to_doc"]
    if end is None:
        return ""
    message, missed = f"; it counts from document {end:,} on, like a new one", end - first
    if not missed:
        return f"{message}; no document has passed it by"
    which = f"{first:,}" if missed == 1 else f"{first:,} to {end - 1:,}"
    return f"{message}; it has not seen {plural(missed, 'document')}: {which} ({gap['reason']})"
