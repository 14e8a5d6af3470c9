"""Every error of the service and of the language is a kind of problem; comparison of secrets and
keys."""

from __future__ import annotations

import json

import pytest

import xscl
from broker.service.access.quotas import OverQuota
from broker.service.access.scopes import Forbidden
from broker.service.api import problems
from broker.service.api.problems import KINDS, PREFIX, ProblemDetails
from broker.service.api.rules import feed_key, own_hosts, same
from broker.service.core import errors

EXAMPLES = {
    errors.Busy: errors.Busy("too much waits", 2.1),
    errors.Starting: errors.Starting("the state is opened", 0.2),
    errors.NotFound: errors.NotFound("channel", "desk"),
    Forbidden: Forbidden("desk", "read:S", "it is not for everybody"),
    OverQuota: OverQuota("ten documents a second", 3.0),
    errors.Invalid: errors.Invalid("no document", "body", 7),
}


def told(problem: problems.Problem) -> ProblemDetails:
    answer = problems.response(problem)
    assert answer.media_type == "application/problem+json"
    assert answer.status_code == KINDS[problem.code][0]
    return ProblemDetails(**json.loads(bytes(answer.body)))


@pytest.mark.parametrize("kind", errors.ServiceError.__subclasses__())
def test_every_error_of_the_service_has_a_kind(kind: type[errors.ServiceError]) -> None:
    error = EXAMPLES.get(kind) or kind("why")
    problem = problems.of_service(error)
    assert problem.code != "internal"
    details = told(problem)
    assert details.type == PREFIX + problem.code
    assert str(error) in details.detail
    if details.status in (429, 503):
        assert int((problem.headers or {})["Retry-After"]) >= error.__dict__.get("retry_after", 1)


def test_lines_and_fields_are_told() -> None:
    details = told(problems.of_service(errors.Invalid("no document", "body", 7)))
    assert details.detail == "line 7: no document"
    assert (details.errors[0].line, details.errors[0].where) == (7, "body")


def test_all_diagnostics_are_told_as_the_command_shows_them() -> None:
    text = "a: S//[;\nb: S//x[./t->v] JOIN {v = , 1 day} S//y"
    with pytest.raises(xscl.XsclError) as raised:
        xscl.parse(text, "<request>")
    details = told(problems.of_service(raised.value))
    assert len(details.errors) == len(raised.value.diagnostics) >= 1
    for found, diagnostic in zip(details.errors, raised.value.diagnostics, strict=True):
        assert found.rendered == diagnostic.render()
        assert (found.code, found.message, found.hint) == (
            diagnostic.code,
            diagnostic.message,
            diagnostic.hint,
        )


def test_half_a_surrogate_pair_is_told_too() -> None:
    details = told(problems.Problem("invalid", "odd: \ud800"))
    assert details.detail == "odd: \ud800"


def test_a_key_opens_one_feed() -> None:
    assert feed_key("token", "pair") == feed_key("token", "pair")
    others = {feed_key("token", "other"), feed_key("other", "pair"), feed_key("token", "\ud800")}
    assert feed_key("token", "pair") not in others
    assert len(others) == 3


def test_secrets_of_any_characters_compare() -> None:
    assert same("Ærø\ud800", "Ærø\ud800")
    assert not same("Ærø", "Ero")


@pytest.mark.parametrize(
    ("host", "public", "expected"),
    [
        ("127.0.0.1", None, {"localhost", "127.0.0.1", "::1"}),
        ("127.0.0.7", None, {"localhost", "127.0.0.1", "::1", "127.0.0.7"}),
        (
            "localhost",
            "https://News.Example:8443/x",
            {"localhost", "127.0.0.1", "::1", "news.example"},
        ),
        ("0.0.0.0", None, None),
        ("192.0.2.1", "https://news.example", None),
    ],
)
def test_names_that_are_its_own(host: str, public: str | None, expected: set[str] | None) -> None:
    assert own_hosts(host, public) == expected
