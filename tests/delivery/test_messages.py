"""Messages of webhooks and mails from templates, in the forms of the receiving services."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from broker.delivery import Mailbox
from broker.delivery.messages import DEFAULT, NAMES, check_template, fill
from broker.delivery.model import Delivered
from broker.delivery.targets import target
from broker.model import DocumentRef, Match
from tests.delivery.support import START, Receiver, Request, delivering, match

LINK = "https://courier.example/ferry"


def story() -> Match:
    documents = (
        DocumentRef("a", "S", START, "Ferry <b> & co", LINK, "City"),
        DocumentRef("b", "S", START + 3_600_000_000, "Again", LINK, "Business"),
    )
    values = {"link": [LINK], "link2": [LINK], "beat": ["harbour", "sea"]}
    return replace(match(0, values=values), documents=documents, joined=(("link", "link2"),))


def sent(mailbox: Mailbox, path: str = "/hook", **settings: Any) -> Request:
    """The one request that a webhook with these settings gets for the match."""
    with Receiver() as receiver, delivering(mailbox):
        mailbox.put_channel("chat", "webhook", settings={"url": receiver.url(path), **settings})
        mailbox.take([story()])
        (request,) = receiver.wait(1)
        return request


def test_ntfy_gets_json_at_its_root(mailbox: Mailbox) -> None:
    request = sent(mailbox, "/tides", form="ntfy")
    assert (request.method, request.path) == ("POST", "/")
    body = json.loads(request.body)
    assert (body["topic"], body["click"]) == ("tides", LINK)
    assert body["title"] == "Ferry <b> & co + Again"
    assert f'link = link2 = "{LINK}"' in body["message"]


def test_slack_gets_text_without_markup(mailbox: Mailbox) -> None:
    """Slack undoes `&amp;`, `&lt;` and `&gt;`, and nothing else."""
    request = sent(mailbox, "/services/T/B/x", form="slack", template='"$headline": $link')
    assert (request.method, request.path) == ("POST", "/services/T/B/x")
    assert json.loads(request.body) == {"text": f'"Ferry &lt;b&gt; &amp; co + Again": {LINK}'}


def test_matrix_gets_an_event_that_a_repeat_does_not_double(mailbox: Mailbox) -> None:
    rooms = "/_matrix/client/v3/rooms/%21r%3Ah.example/send/m.room.message"
    request = sent(mailbox, rooms, form="matrix", headers={"Authorization": "Bearer t"})
    assert (request.method, request.path) == ("PUT", f"{rooms}/{story().id}")
    body = json.loads(request.body)
    assert body["msgtype"] == "m.text"
    assert body["format"] == "org.matrix.custom.html"
    assert f'<a href="{LINK}">Ferry &lt;b&gt; &amp; co</a>' in body["formatted_body"]
    assert request.headers["authorization"] == "Bearer t"


def test_telegram_gets_the_chat_and_its_token_is_not_shown(mailbox: Mailbox) -> None:
    path = "/bot123:secret/sendMessage"
    request = sent(mailbox, path, form="telegram", chat="@tides", template="$headline")
    assert (request.method, request.path) == ("POST", path)
    assert json.loads(request.body) == {"chat_id": "@tides", "text": "Ferry <b> & co + Again"}
    channel = mailbox.channel("chat")
    shown = channel.without_secrets().settings
    assert "secret" not in shown["url"]
    assert "/bot(hidden)/sendMessage" in shown["url"]
    # What is shown comes back when something else is changed.
    mailbox.put_channel("chat", "webhook", settings={**shown, "chat": "@flow"})
    assert mailbox.channel("chat").settings["url"] == channel.settings["url"]


def test_plain_text(mailbox: Mailbox) -> None:
    request = sent(mailbox, form="text", template="${values.beat}|$query|$$5|${values.none}")
    assert request.body.decode() == "harbour, sea|tides|$5|"
    assert request.headers["content-type"] == "text/plain; charset=utf-8"
    assert request.headers["webhook-id"] == story().id


def test_all_names_are_filled_in() -> None:
    delivered = Delivered(7, START, story(), 3)
    text = fill(" ".join(f"{name}=${name}" for name in NAMES), delivered)
    assert "$" not in text
    assert "n=7" in text
    assert "left_out=3" in text
    assert check_template(DEFAULT) == DEFAULT
    assert fill(None, delivered).splitlines() == [
        "tides, 2026-09-21 14:13 UTC",
        "Ferry <b> & co (City), 2026-09-21 14:13 UTC",
        LINK,
        "Again (Business), 1 h later",
        LINK,
        f'link = link2 = "{LINK}"',
        "beat: harbour; sea",
    ]


def test_a_message_is_no_longer_than_its_receiver_takes() -> None:
    long = replace(story(), values={"t": ["long " * 5_000]})
    assert len(fill("${values.t}", Delivered(1, START, long))) == 3_500


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"form": "pager"}, "form: one of standard, ntfy, slack, matrix, telegram, text"),
        ({"form": "telegram"}, "chat: the number or @name of a chat"),
        ({"chat": "@x"}, "for telegram and nothing else"),
        ({"template": "$headline"}, "for a form other than standard"),
        ({"form": "text", "template": "$headlin"}, "there is no $headlin; there are $query,"),
        ({"form": "text", "template": "costs 5$"}, "write $$ for a dollar sign"),
        ({"form": "text", "template": " "}, "a text with names"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    whole = {"url": "https://example.org/x", "secret": "whsec_" + "A" * 32, **settings}
    with pytest.raises(ValueError, match=re.escape(said)):
        target("webhook", whole)


def test_a_mail_by_template() -> None:
    mail = {"to": "a@example.org", "template": "$headline\n$link\n"}
    found: Any = target("mail", mail)
    assert fill(found.template, Delivered(1, START, story())) == f"Ferry <b> & co + Again\n{LINK}\n"
    with pytest.raises(ValueError, match="there is no"):
        target("mail", mail | {"template": "$nothing"})
