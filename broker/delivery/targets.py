"""The settings of a channel, by kind: checked when they are given, typed where they are used."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parseaddr
from typing import Any

import httpx

from broker.delivery.messages import check_template
from broker.delivery.model import HIDDEN, Kind
from broker.text.formats import FORMATS, WEBHOOK_FORMS, WebhookForm

MATCH = "match"
"""The type of the event that a webhook gets for each match."""
EVENTS = (
    *("channel.disabled", "channel.gone", "channel.recovered", "delivery.dead"),
    *("subscription.suspended", "state.lost", "state.older", "state.repaired"),
)
"""The types of events that a webhook may list."""
ROTATION = 86_400_000_000
"""Microseconds for which a webhook's former secret signs too."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,99}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = {"host", "content-length", "content-type", "transfer-encoding", "connection", "user-agent"}


@dataclass(frozen=True, slots=True)
class FileTarget:
    """`path` "-" is standard output. Rotated before it grows beyond `rotate_bytes`, if that is set:
    path.1 is the newest of `keep` old ones."""

    path: str
    format: str = "jsonl"
    rotate_bytes: int | None = None
    keep: int = 5


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """`secrets` are the current one, which signs, and former ones with the time until which they
    sign too. `form` is that of the receiving service, `chat` the chat for services with one address
    for all chats, `template` the text of a message; see `broker/delivery/messages.py`."""

    url: str
    secret: str
    old_secrets: tuple[tuple[str, int], ...] = ()
    events: tuple[str, ...] = (MATCH,)
    headers: tuple[tuple[str, str], ...] = ()
    form: WebhookForm = "standard"
    template: str | None = None
    chat: str | None = None


@dataclass(frozen=True, slots=True)
class MailTarget:
    """A digest of at most `limit` matches to each of `to`, at most one per `every` microseconds.
    With `attach` the result documents are attached as one XML document."""

    to: tuple[str, ...]
    subject: str = "{count} of {subscription}"
    every: int = 86_400_000_000
    limit: int = 100
    attach: bool = False
    template: str | None = None


@dataclass(frozen=True, slots=True)
class PullTarget:
    """A named consumer, which moves the cursor itself."""


Target = FileTarget | WebhookTarget | MailTarget | PullTarget


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a channel's name has letters, digits, '.', '_', '~' and '-', at most 100, not "
            f"{name!r}"
        )


def target(kind: Kind, settings: Mapping[str, Any]) -> Target:
    """The typed settings. ValueError says which one is missing, unknown or wrong."""
    if kind not in _PARSERS:
        raise ValueError(f"a channel is one of {', '.join(_PARSERS)}, not {kind!r}")
    parse, known = _PARSERS[kind]
    unknown = sorted(settings.keys() - known)
    if unknown:
        raise ValueError(
            f"a {kind} channel has no setting {unknown[0]!r}; there are "
            f"{', '.join(known) or 'none'}"
        )
    found: Target = parse(settings)
    return found


def prepared(
    kind: Kind, settings: Mapping[str, Any], before: Mapping[str, Any] | None, now: int
) -> dict[str, Any]:
    """The settings as they are stored: checked, and a webhook's secret made or rotated."""
    made = dict(settings)
    if kind == "webhook":
        made.pop("old_secrets", None)
        old = before or {}
        # A client that changes another setting sends the secret back as it was shown: hidden.
        if made.get("secret") in (None, HIDDEN):
            made["secret"] = old.get("secret") or new_secret()
        if HIDDEN in str(made.get("url")):
            made["url"] = old.get("url", made["url"])
        if made.get("headers") == HIDDEN:
            made["headers"] = old.get("headers", {})
        former = [[s, until] for s, until in old.get("old_secrets", []) if until > now]
        if old.get("secret") and old["secret"] != made["secret"]:
            former = [[old["secret"], now + ROTATION], *former]
        former = [pair for pair in former if pair[0] != made["secret"]]
        if former:
            made["old_secrets"] = former
    target(kind, made)
    return made


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


# -- by kind -------------------------------------------------------------------------------------


def _file(settings: Mapping[str, Any]) -> FileTarget:
    path = _text(settings, "path")
    if "\0" in path:
        raise ValueError("path: a path holds no NUL")
    form = settings.get("format", "jsonl")
    if not isinstance(form, str) or form not in FORMATS:
        raise ValueError(f"format: one of {', '.join(FORMATS)}, not {form!r}")
    rotate = settings.get("rotate_bytes")
    if path == "-" and rotate is not None:
        raise ValueError("rotate_bytes: standard output is not rotated")
    return FileTarget(
        path,
        form,
        None if rotate is None else _number(settings, "rotate_bytes", 0, 1),
        _number(settings, "keep", 5, 0),
    )


def _webhook(settings: Mapping[str, Any]) -> WebhookTarget:
    text = _text(settings, "url")
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ValueError(f"url: {error}") from None
    if url.scheme not in ("http", "https") or not url.host or "%" in url.host:
        raise ValueError("url: write http://… or https://…, with a host")
    if url.userinfo:
        raise ValueError("url: put a login into headers (Authorization), not into the address")
    secret = _text(settings, "secret")
    check_secret(secret)
    events = settings.get("events", (MATCH,))
    if not _is_list(events) or not all(isinstance(event, str) for event in events):
        raise ValueError("events: a list of types, such as match and channel.disabled")
    if unknown := set(events) - {MATCH, *EVENTS}:
        raise ValueError(
            f"events: there is no {min(unknown)!r}; there are {', '.join((MATCH, *EVENTS))}"
        )
    headers = settings.get("headers", {})
    if not isinstance(headers, Mapping):
        raise ValueError("headers: names with their values")
    for name, value in headers.items():
        _check_header(name, value)
    return WebhookTarget(
        text,
        secret,
        tuple((str(old), int(until)) for old, until in settings.get("old_secrets", ())),
        tuple(events),
        tuple(headers.items()),
        *_message(settings),
    )


def _message(settings: Mapping[str, Any]) -> tuple[WebhookForm, str | None, str | None]:
    form = settings.get("form", "standard")
    if form not in WEBHOOK_FORMS:
        raise ValueError(f"form: one of {', '.join(WEBHOOK_FORMS)}, not {form!r}")
    chat = settings.get("chat")
    if (form == "telegram") != (chat is not None):
        raise ValueError("chat: the number or @name of a chat, for telegram and nothing else")
    if chat is not None and not isinstance(chat, str):
        raise ValueError("chat: a text, such as @channel or -100123")
    template = settings.get("template")
    if template is None:
        return form, None, chat
    if form == "standard":
        raise ValueError("template: for a form other than standard, which is JSON for programs")
    return form, check_template(template), chat


def check_secret(secret: str) -> None:
    """Standard Webhooks: base64 of 24 to 64 random bytes behind whsec_."""
    try:
        size = len(base64.b64decode(secret.removeprefix("whsec_"), validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not secret.startswith("whsec_") or not 24 <= size <= 64:
        raise ValueError("secret: write whsec_ and the base64 of 24 to 64 random bytes")


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str) or not _HEADER.fullmatch(name):
        raise ValueError(f"headers: {name!r} is no name of a header")
    if name.lower() in _OURS or name.lower().startswith("webhook-"):
        raise ValueError(f"headers: {name} is set by the broker")
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise ValueError(f"headers: the value of {name} must be printable ASCII on one line")


def _mail(settings: Mapping[str, Any]) -> MailTarget:
    to = settings.get("to", ())
    addresses = (to,) if isinstance(to, str) else to
    checked = tuple(_address(address) for address in addresses) if _is_list(addresses) else ()
    if not checked:
        raise ValueError("to: write one address or several")
    subject = settings.get("subject", "{count} of {subscription}")
    if not isinstance(subject, str) or not subject.isprintable():
        raise ValueError("subject: a line of text; {count} and {subscription} are filled in")
    attach = settings.get("attach", False)
    if not isinstance(attach, bool):
        raise ValueError("attach: true or false")
    return MailTarget(
        checked,
        subject,
        _number(settings, "every", 86_400_000_000, 1),
        _number(settings, "limit", 100, 1, 10_000),
        attach,
        None if settings.get("template") is None else check_template(settings["template"]),
    )


def _address(address: object) -> str:
    if isinstance(address, str) and address.isascii() and address.isprintable():
        _, plain = parseaddr(address)
        local, at, domain = plain.rpartition("@")
        if plain == address and local and at and domain and " " not in address:
            return address
    raise ValueError(f"to: {address!r} is no mail address")


def _pull(_: Mapping[str, Any]) -> PullTarget:
    return PullTarget()


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _text(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: needed, as text")
    return value


def _number(
    settings: Mapping[str, Any], name: str, default: int, least: int, most: int = 2**62
) -> int:
    value = settings.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name}: a whole number from {least} on, not {value!r}")
    return value


_PARSERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "file": (_file, ("path", "format", "rotate_bytes", "keep")),
    "webhook": (
        _webhook,
        ("url", "secret", "old_secrets", "events", "headers", "form", "template", "chat"),
    ),
    "mail": (_mail, ("to", "subject", "every", "limit", "attach", "template")),
    "pull": (_pull, ()),
}
