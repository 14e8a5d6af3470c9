"""`broker tokens`: makes, lists, changes, rotates and revokes tokens; who has changed what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from broker.cli.remote.answers import object_of
from broker.cli.remote.client import Service, part
from broker.cli.remote.options import with_service
from broker.cli.shared import DURATION, SIZE, Wrong, console, for_each
from broker.cli.tables import csv_table, echo_json, format_option, moment, table
from broker.text.units import format_duration, format_size

name_argument = click.argument("name")

_PAGE = 1_000
_QUOTA = ("subscriptions", "documents", "bytes", "state")


@click.group()
def tokens() -> None:
    """Make and manage tokens that may do less than the service's own.

    The service's own token, which it makes at its first start, may do everything. A token that is
    made here has scopes: streams that it may read and publish to, subscriptions of its own.
    """


def _scope_options(function: Any) -> Any:
    for option in (
        click.option(
            "--read", multiple=True, metavar="STREAM", help="It may subscribe to the stream; or a*."
        ),
        click.option(
            "--publish",
            multiple=True,
            metavar="STREAM",
            help="It may publish to the stream; or a*.",
        ),
        click.option(
            "--subscribe",
            is_flag=True,
            help="It may have subscriptions and channels of its own; given with --read too.",
        ),
        click.option("--operate", is_flag=True, help="It may do everything."),
        click.option(
            "--subscriptions",
            type=click.IntRange(0),
            metavar="N",
            help="Quota: subscriptions at a time.",
        ),
        click.option(
            "--documents",
            type=click.FloatRange(0, min_open=True),
            metavar="N",
            help="Quota: documents a second that it publishes.",
        ),
        click.option(
            "--bytes", type=SIZE, metavar="SIZE", help="Quota: bytes a second that it publishes."
        ),
        click.option(
            "--stored",
            "state_bytes",
            type=SIZE,
            metavar="SIZE",
            help="Quota: bytes of its documents that the service holds at a time.",
        ),
    ):
        function = option(function)
    return function


def _scopes(
    read: tuple[str, ...], publish: tuple[str, ...], subscribe: bool, operate: bool
) -> list[str]:
    scopes = [*(f"read:{each}" for each in read), *(f"publish:{each}" for each in publish)]
    if subscribe or read:
        scopes.append("subscribe")
    if operate:
        scopes.append("operate")
    return scopes


def _quota(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


@tokens.command()
@name_argument
@_scope_options
@with_service
def add(
    service: Service,
    /,
    name: str,
    read: tuple[str, ...],
    publish: tuple[str, ...],
    subscribe: bool,
    operate: bool,
    subscriptions: int | None,
    documents: float | None,
    bytes: int | None,
    state_bytes: int | None,
) -> None:
    """Make the token NAME, and print its secret on standard output, this once.

    It has the subscriptions that a former one of this name has left. Those that read or publish
    what it may not are paused.

    \b
    broker tokens add desk --read 'news.*' --subscriptions 100 > desk.token
    broker tokens add importer --publish orders --documents 50 --bytes "1 MB"
    broker tokens add ops --operate
    """
    scopes = _scopes(read, publish, subscribe, operate)
    if not scopes:
        raise click.UsageError("give at least one of --read, --publish, --subscribe and --operate")
    quota = _quota(subscriptions=subscriptions, documents=documents, bytes=bytes, state=state_bytes)
    body = {"name": name, "scopes": scopes, "quota": quota}
    reply = object_of(service.ask("POST", "/v1/tokens", json=body))
    _print_token(reply)
    _print_paused(reply["paused"])
    console.print("  clients send this; it is shown this once, and only a hash of it is stored:")
    click.echo(reply["secret"])


@tokens.command()
@name_argument
@_scope_options
@click.option(
    "--remove", multiple=True, metavar="SCOPE", help="Take a scope away, as read:STREAM or operate."
)
@click.option("--unlimited", is_flag=True, help="Without any quota but those that are given.")
@with_service
def change(
    service: Service,
    /,
    name: str,
    read: tuple[str, ...],
    publish: tuple[str, ...],
    subscribe: bool,
    operate: bool,
    subscriptions: int | None,
    documents: float | None,
    bytes: int | None,
    state_bytes: int | None,
    remove: tuple[str, ...],
    unlimited: bool,
) -> None:
    """Give the token NAME more scopes, take some away, or set its quota; its secret stays.

    Its subscriptions that read or publish what it may not any more are paused.

    \b
    broker tokens change desk --read orders --remove 'read:news.*'
    broker tokens change desk --subscriptions 200
    """
    quota = _quota(subscriptions=subscriptions, documents=documents, bytes=bytes, state=state_bytes)
    scopes = _scopes(read, publish, subscribe, operate)
    if not (scopes or remove or quota or unlimited):
        raise click.UsageError("nothing to change: see the options")
    body: dict[str, Any] = {}
    if scopes or remove:
        known = {token["name"]: token["scopes"] for token in service.get_list("/v1/tokens")}
        has = known.get(name, [])
        for scope in remove:
            if name in known and scope not in has:
                raise Wrong(f"{name} has no scope {scope}; it has {' '.join(has)}")
        body["scopes"] = sorted({*has, *scopes} - {*remove})
    if quota or unlimited:
        body["quota"] = (dict.fromkeys(_QUOTA) if unlimited else {}) | quota
    reply = object_of(service.ask("PATCH", f"/v1/tokens/{part(name)}", json=body))
    _print_token(reply)
    _print_paused(reply["paused"])


@tokens.command("list")
@format_option
@with_service
def list_tokens(service: Service, form: str) -> None:
    """List the tokens, without their secrets."""
    found = service.get_list("/v1/tokens")
    if form == "jsonl":
        for token in found:
            echo_json(token)
    elif form == "csv":
        csv_table(
            ("name", "scopes", "quota", "subscriptions", "made", "rotated", "former_until"),
            [
                {**t, "scopes": " ".join(t["scopes"]), "quota": _quota_in_words(t["quota"])}
                for t in found
            ],
        )
    elif found:
        table(
            ("NAME", "SUBSCRIPTIONS", "ROTATED", "SCOPES", "QUOTA"),
            [
                (
                    t["name"],
                    t["subscriptions"],
                    moment(t["rotated"]),
                    " ".join(t["scopes"]),
                    _quota_in_words(t["quota"]),
                )
                for t in found
            ],
        )
    else:
        console.print("no tokens but the service's own; make one with: broker tokens add NAME")


@tokens.command()
@name_argument
@click.option(
    "--overlap",
    type=DURATION,
    default="0 s",
    help="For how long the former secret is taken too; not at all unless given.",
)
@with_service
def rotate(service: Service, /, name: str, overlap: int) -> None:
    """Give the token NAME another secret, and print it on standard output, this once.

    \b
    broker tokens rotate desk --overlap "1 day" > desk.token
    """
    body = {"overlap": format_duration(overlap)}
    reply = object_of(service.ask("POST", f"/v1/tokens/{part(name)}/rotate", json=body))
    until = reply["former_until"]
    former = f"the former secret is taken until {moment(until)}" if until else ""
    console.print(f"{name}: {former or 'the former secret is not taken any more'}")
    click.echo(reply["secret"])


@tokens.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--subscriptions",
    type=click.Choice(["pause", "drop", "keep"]),
    default="pause",
    show_default=True,
    help="What becomes of their subscriptions and channels.",
)
@with_service
def revoke(service: Service, /, names: tuple[str, ...], subscriptions: str) -> None:
    """End tokens at once, also for streams of matches that are open."""

    def one(name: str) -> str:
        params = {"subscriptions": subscriptions}
        reply = object_of(service.ask("DELETE", f"/v1/tokens/{part(name)}", params=params))
        count = len(reply["subscriptions"])
        fate = {"pause": "paused", "drop": "dropped", "keep": "kept as they are"}[subscriptions]
        return f"{name}: revoked" + (f"; subscriptions {fate}: {count:,}" if count else "")

    for_each(names, one)


@tokens.command()
@with_service
def whoami(service: Service) -> None:
    """Say which token one has, and what it may do."""
    reply = service.get("/v1/identity")
    name = reply["name"] or "the service's own token"
    click.echo(f"{name}: {' '.join(sorted(reply['scopes']))}")
    if _quota_in_words(reply["quota"]):
        click.echo(f"  quota: {_quota_in_words(reply['quota'])}")


@tokens.command()
@click.option("--after", type=click.IntRange(0), default=0, help="Only those of a higher number.")
@click.option("--token", metavar="NAME", help="Only those by it; '': by the service's own.")
@format_option
@with_service
def log(service: Service, /, after: int, token: str | None, form: str) -> None:
    """Show who has changed what, the oldest first: tokens, subscriptions, channels, feeds.

    \b
    broker tokens log --token desk
    """
    entries = _changes(service, after, token)
    if form == "jsonl":
        for entry in entries:
            echo_json(entry)
        return
    if form == "csv":
        csv_table(("number", "at", "who", "address", "action", "subject", "detail"), entries)
        return
    rows = [
        (
            str(e["number"]),
            moment(e["at"]),
            e["who"] or "(service)",
            e["address"],
            e["action"],
            e["subject"],
        )
        for e in entries
    ]
    if rows:
        table(("NUMBER", "TIME", "WHO", "FROM", "WHAT", "OF"), rows)
    else:
        console.print("no changes")


def _changes(service: Service, after: int, token: str | None) -> Iterator[dict[str, Any]]:
    while page := service.get_list("/v1/changes", after=after, limit=_PAGE, token=token):
        after = page[-1]["number"]
        yield from page


def _print_token(token: dict[str, Any]) -> None:
    quota = _quota_in_words(token["quota"])
    scopes = " ".join(sorted(token["scopes"]))
    console.print(f"{token['name']}: {scopes}" + (f"; quota: {quota}" if quota else ""))


def _print_paused(ids: list[str]) -> None:
    for id in ids:
        console.print(f"  paused: {id}, which does what the token may not any more")


def _quota_in_words(quota: dict[str, Any]) -> str:
    """A quota in words."""
    parts = {
        "subscriptions": "{:,} subscriptions".format,
        "documents": "{:g} documents/s".format,
        "bytes": _per_second,
        "state": _stored,
    }
    return ", ".join(say(quota[name]) for name, say in parts.items() if quota[name] is not None)


def _per_second(size: int) -> str:
    return f"{format_size(size)}/s"


def _stored(size: int) -> str:
    return f"{format_size(size)} stored"
