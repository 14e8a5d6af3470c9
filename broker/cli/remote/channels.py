"""`broker channels`: adds, lists, tests and removes the channels by which matches are delivered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from broker.cli.remote.answers import object_of
from broker.cli.remote.client import Service, part
from broker.cli.remote.options import with_service
from broker.cli.shared import DURATION, SIZE, Failed, console, for_each
from broker.cli.tables import ago, csv_table, echo_json, format_option, moment, table, waiting
from broker.text.formats import FORMATS, WEBHOOK_FORMS

name_argument = click.argument("name")
names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.group()
def channels() -> None:
    """Add and manage the channels that deliver matches: to files, webhooks, mail, or to programs
    that fetch them.

    A channel has one subscription, or all of them. It remembers how far it has got, so that a
    receiver that was away gets everything when it is back.
    """


@channels.command()
@name_argument
@click.option("--subscription", metavar="ID", help="Whose matches; without it those of all.")
@click.option("--webhook", metavar="URL", help="Post each match there, by Standard Webhooks.")
@click.option("--file", "path", metavar="PATH", help="Append to a file of the service's machine.")
@click.option("--mail", "to", metavar="ADDRESS", multiple=True, help="Mail digests there.")
@click.option(
    "--pull", is_flag=True, help="Wait for a program: broker matches --channel NAME --ack."
)
@click.option(
    "--unordered",
    is_flag=True,
    help="Let a match that cannot be delivered hold up none of those behind it.",
)
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --webhook: file with the secret to sign with, whsec_…; else one is made.",
)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:VALUE", help="With --webhook: sent along."
)
@click.option(
    "--event",
    "events",
    multiple=True,
    metavar="KIND",
    help="With --webhook: the kind of event to send; match unless given. Others are for instance "
    "subscription.suspended and channel.disabled.",
)
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), help="With --file: jsonl unless given."
)
@click.option("--rotate", type=SIZE, metavar="SIZE", help="With --file: begin a new one then.")
@click.option("--keep", type=click.IntRange(0), help="With --file: how many old ones to keep.")
@click.option("--every", type=DURATION, help="With --mail: how often, at most; 1 day unless given.")
@click.option(
    "--form",
    "webhook_form",
    type=click.Choice(WEBHOOK_FORMS),
    help="With --webhook: what the receiver understands; standard unless given.",
)
@click.option("--chat", help="With --form telegram: the chat, as @name or a number.")
@click.option(
    "--template",
    type=click.File(encoding="utf-8"),
    help="With --mail, or with --webhook and a form: file with the text of a message; $headline, "
    "$link, ${values.NAME} and others are filled in.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Take the place of a channel of that name which is of another kind, leads elsewhere or "
    "has another subscription.",
)
@click.option("--subject", help="With --mail: {count} and {subscription} are filled in.")
@with_service
def add(
    service: Service,
    /,
    name: str,
    subscription: str | None,
    webhook: str | None,
    path: str | None,
    to: tuple[str, ...],
    pull: bool,
    unordered: bool,
    replace: bool,
    **options: Any,
) -> None:
    """Make the channel NAME; it begins with what is found from now on.

    One that is there may be given other settings in the same way. What it is for (its kind, where
    it leads, its subscription) changes only with --replace.

    \b
    broker channels add desk --subscription same-page --webhook https://example.org/hook
    broker channels add log --file /var/log/matches.jsonl --rotate "100 MB" --keep 9
    broker channels add phone --webhook https://ntfy.sh/my-topic --form ntfy
    broker channels add digest --subscription same-page --mail me@example.org --every "1 day"
    broker channels add batch --pull
    """
    kinds = {"webhook": webhook, "file": path, "mail": to, "pull": pull}
    chosen = [kind for kind, value in kinds.items() if value]
    if len(chosen) != 1:
        raise click.UsageError("give one of --webhook, --file, --mail and --pull")
    (kind,) = chosen
    settings = _settings(kind, options)
    if kind == "webhook":
        settings["url"] = webhook
    elif kind == "file":
        settings["path"] = path if path == "-" else str(Path(str(path)).absolute())
    elif kind == "mail":
        settings["to"] = list(to)
    body = {
        "kind": kind,
        "subscription": subscription,
        "settings": settings,
        "ordered": not unordered,
        "replace": replace,
    }
    reply = object_of(service.ask("PUT", f"/v1/channels/{part(name)}", json=body))
    before = reply["was"]
    purpose, old_purpose = _purpose(reply), before and _purpose(before)
    if old_purpose is None:
        console.print(f"{name}: {purpose}")
    elif old_purpose == purpose:
        console.print(f"{name}: {purpose}, as it was")
    else:
        console.print(f"{name}: {purpose}; it replaces {old_purpose}")
        if (before["kind"], before["subscription"]) != (kind, subscription):
            console.print("  what that had still to deliver is not delivered")
    if kind == "webhook" and not options["secret_file"]:
        console.print(f"  what it signs with: broker channels show {name} --secrets")


_OPTIONS = {
    "webhook": {
        "secret_file": "secret",
        "headers": "headers",
        "events": "events",
        "webhook_form": "form",
        "chat": "chat",
        "template": "template",
    },
    "file": {"form": "format", "rotate": "rotate_bytes", "keep": "keep"},
    "mail": {"every": "every", "subject": "subject", "template": "template"},
    "pull": {},
}
"""By kind of channel: its options, with their names in the API."""


def _settings(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The settings of a channel. Raises click.UsageError for an option of another kind."""
    settings: dict[str, Any] = {}
    for option, value in options.items():
        if value in (None, ()):
            continue
        if option not in _OPTIONS[kind]:
            other = next(k for k, known in _OPTIONS.items() if option in known)
            shown = (
                option.removesuffix("s").replace("_", "-")
                if value.__class__ is tuple
                else option.replace("_", "-")
            )
            shown = shown.removeprefix("webhook-")
            raise click.UsageError(f"--{shown} goes with --{other}, not with --{kind}")
        if option == "secret_file":
            value = value.read_text(encoding="utf-8").strip()
        elif option == "headers":
            value = dict(_header(header) for header in value)
        elif option == "template":
            value = value.read()
        elif option == "events":
            value = list(value)
        settings[_OPTIONS[kind][option]] = value
    return settings


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.BadParameter(f"{text!r}: write NAME:VALUE", param_hint="--header")
    return name.strip(), value.strip()


def _purpose(channel: dict[str, Any]) -> str:
    """The target and the subscription of a channel, in a few words."""
    return f"{_target(channel)}, for {channel['subscription'] or 'all subscriptions'}"


def _target(channel: dict[str, Any]) -> str:
    """The kind and the target of a channel, in a few words."""
    settings = channel["settings"]
    to = settings.get("to", "")
    where = {
        "webhook": settings.get("url"),
        "file": settings.get("path"),
        "mail": to if isinstance(to, str) else ", ".join(to),
    }.get(channel["kind"])
    return f"{channel['kind']} {where}" if where else str(channel["kind"])


_CSV = (
    *("name", "kind", "status", "subscription", "delivered", "waiting", "last_success"),
    *("attempts", "next_try", "last_error", "reason"),
)


@channels.command("list")
@format_option
@with_service
def list_channels(service: Service, form: str) -> None:
    """List the channels, with how far each has got and what went wrong last."""
    entries = service.get_list("/v1/channels")
    if form == "jsonl":
        for channel in entries:
            echo_json(channel)
        return
    if form == "csv":
        csv_table(_CSV, entries)
        return
    if not entries:
        console.print("no channels; make one with broker channels add")
        return
    header = ("NAME", "STATUS", "SUBSCRIPTION", "DELIVERED", "WAITING", "LAST SUCCESS", "TO")
    table(header, [_row(channel) for channel in entries])
    for channel in entries:
        if problem := channel["reason"] or channel["last_error"]:
            next_try = ""
            if channel["next_try"] and channel["status"] == "active":
                next_try = f"; next attempt at {moment(channel['next_try'])}"
            console.print(f"{channel['name']}: {problem}{next_try}")


def _row(channel: dict[str, Any]) -> tuple[object, ...]:
    status = channel["status"]
    if status == "active" and channel["attempts"]:
        status = "failing"
    if channel["draining"]:
        status += ", then gone"
    success = "" if channel["kind"] == "pull" else ago(channel["last_success"])
    return (
        channel["name"],
        status,
        channel["subscription"] or "(all)",
        channel["delivered"],
        waiting(channel["waiting"]),
        success,
        _target(channel),
    )


@channels.command()
@name_argument
@click.option("--secrets", is_flag=True, help="Also what a webhook signs with.")
@with_service
def show(service: Service, name: str, secrets: bool) -> None:
    """Show all of a channel as JSON."""
    channel = service.get(f"/v1/channels/{part(name)}", secrets="true" if secrets else None)
    click.echo(json.dumps(channel, ensure_ascii=False, indent=2))


@channels.command()
@names_argument
@with_service
def remove(service: Service, names: tuple[str, ...]) -> None:
    """Remove channels; what they have not delivered stays in the log, and is not delivered
    there."""

    def one(name: str) -> str:
        service.delete(f"/v1/channels/{part(name)}")
        return f"{name}: removed"

    for_each(names, one)


@channels.command()
@names_argument
@with_service
def pause(service: Service, names: tuple[str, ...]) -> None:
    """Deliver nothing there until it is resumed; nothing is lost meanwhile."""

    def one(name: str) -> str:
        reply = object_of(service.post(f"/v1/channels/{part(name)}/pause"))
        return f"{reply['name']}: paused"

    for_each(names, one)


@channels.command()
@names_argument
@with_service
def resume(service: Service, names: tuple[str, ...]) -> None:
    """Go on with channels that were paused, or disabled since their receiver failed; at once."""

    def one(name: str) -> str:
        reply = object_of(service.post(f"/v1/channels/{part(name)}/resume"))
        return f"{reply['name']}: goes on"

    for_each(names, one)


@channels.command()
@names_argument
@click.option(
    "--after",
    type=click.IntRange(min=0),
    required=True,
    metavar="N",
    help="Number of the match behind which they begin; 0 for all that is in the log.",
)
@with_service
def reset(service: Service, names: tuple[str, ...], after: int) -> None:
    """Begin channels again at an earlier or a later match; what lies behind it is delivered again.

    \b
    broker channels reset desk --after 0
    """

    def one(name: str) -> str:
        reply = object_of(service.post(f"/v1/channels/{part(name)}/reset", {"after": after}))
        return f"{reply['name']}: begins again behind match {after}"

    for_each(names, one)


@channels.command()
@name_argument
@with_service
def test(service: Service, name: str) -> None:
    """Send a test message there now, and say what the receiver answered; exit code 1 if it
    failed."""
    reply = object_of(service.post(f"/v1/channels/{part(name)}/test", timeout=120.0))
    if not reply["ok"]:
        raise Failed(f"{name}: {reply['detail']}")
    console.print(f"{name}: {reply['detail']}")
