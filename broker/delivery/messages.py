"""Messages about matches for webhooks and mails: a channel's template, in the form of the
receiving service.

A template is text with names in it: `$headline`, `$link`, `${values.title}`; `NAMES` has all. A
*form* is the kind of request that a service accepts: its method, address and body.

ntfy      https://docs.ntfy.sh/publish/#publish-as-json
slack     https://api.slack.com/messaging/webhooks; Mattermost and Rocket.Chat take the same
matrix    PUT /_matrix/client/v3/rooms/{room}/send/m.room.message/{transaction}
telegram  https://core.telegram.org/bots/api#sendmessage
text      the text itself
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from string import Template
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from broker.delivery.model import Delivered
from broker.text.formats import WebhookForm
from broker.text.people import as_html, because, headline, lines, link, moment, others

_LONGEST = 3_500
"""Characters of a message at most; the smallest limit of the services is 4,096."""


class Text(Template):
    """A template whose names may have dots, as `${values.title}`."""

    idpattern = r"(?a:[A-Za-z_][A-Za-z0-9_]*(?:\.[\w'’-]+)?)"
    flags = re.NOFLAG


NAMES: dict[str, Callable[[Delivered], str]] = {
    "query": lambda delivered: delivered.match.query,
    "id": lambda delivered: delivered.match.id,
    "n": lambda delivered: str(delivered.n),
    "when": lambda delivered: moment(delivered.match.end_us),
    "headline": lambda delivered: headline(delivered.match),
    "link": lambda delivered: (_links(delivered) or [""])[-1],
    "links": lambda delivered: "\n".join(_links(delivered)),
    "documents": lambda delivered: "\n".join(
        f"{each.title} ({each.feed}), {each.when}" + (f"\n{each.link}" if each.link else "")
        for each in lines(delivered.match)
    ),
    "because": lambda delivered: "\n".join(because(delivered.match)),
    "values": lambda delivered: "\n".join(f"{n}: {text}" for n, text in others(delivered.match)),
    "left_out": lambda delivered: str(delivered.left_out),
    "result": lambda delivered: delivered.match.result,
}
"""The names in templates; beside them `values.NAME` is the texts of a variable or of a name of
SELECT."""

DEFAULT = "$query, $when\n$documents\n$because\n$values"


class Request(NamedTuple):
    """A request to a receiver: method, address, and a body, which is JSON unless it is a str."""

    method: str
    url: str
    body: dict[str, Any] | str


def check_template(text: object) -> str:
    """The template, if it is valid. ValueError says what is wrong with it."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError("template: a text with names such as $headline in it")
    template = Text(text)
    if not template.is_valid():
        raise ValueError("template: write $$ for a dollar sign, and ${name} before letters")
    for name in template.get_identifiers():
        if name not in NAMES and not name.startswith("values."):
            known = ", ".join(f"${each}" for each in NAMES)
            raise ValueError(f"template: there is no ${name}; there are {known}, ${{values.NAME}}")
    return text


def fill(template: str | None, delivered: Delivered) -> str:
    """The text for one match, without lines that are empty because a name is."""
    text = template or DEFAULT
    found: dict[str, str] = {}
    for name in Text(text).get_identifiers():
        if name in NAMES:
            found[name] = NAMES[name](delivered)
        else:
            texts = delivered.match.values.get(name.removeprefix("values."), [])
            found[name] = ", ".join(texts)
    filled = Text(text).substitute(found).encode("utf-8", "replace").decode()
    if template is None:
        filled = "\n".join(line for line in filled.splitlines() if line.strip())
    return filled if len(filled) <= _LONGEST else filled[: _LONGEST - 1] + "…"


def request(
    form: WebhookForm, url: str, chat: str | None, title: str, text: str, more: Mapping[str, str]
) -> Request:
    """The request that sends a text to a service. `more` may have `link`, `html` and `id`, which is
    the same in each attempt."""
    if form == "ntfy":
        parts = urlsplit(url)
        topic = parts.path.rpartition("/")[2]
        body = {"topic": topic, "title": title, "message": text}
        if more.get("link"):
            body["click"] = more["link"]
        path = parts.path.removesuffix(topic)
        return Request("POST", urlunsplit(parts._replace(path=path)), body)
    if form == "slack":
        return Request("POST", url, {"text": escape(text, quote=False)})
    if form == "matrix":
        content = {"msgtype": "m.text", "body": text}
        if more.get("html"):
            content |= {"format": "org.matrix.custom.html", "formatted_body": more["html"]}
        return Request("PUT", f"{url.rstrip('/')}/{quote(more['id'], safe='')}", content)
    if form == "telegram":
        return Request("POST", url, {"chat_id": chat or "", "text": text})
    return Request("POST", url, text)


def of_match(
    form: WebhookForm, url: str, chat: str | None, template: str | None, delivered: Delivered
) -> Request:
    """The request for a match."""
    more = {"id": delivered.match.id, "link": (_links(delivered) or [""])[-1]}
    if template is None:
        more["html"] = as_html(delivered.match)
    return request(form, url, chat, headline(delivered.match), fill(template, delivered), more)


def _links(delivered: Delivered) -> list[str]:
    found = (link(document) for document in delivered.match.documents)
    return list(dict.fromkeys(each for each in found if each))
