"""Queries for what people often want: a few questions, and the text that the answers give.

In: the answers, as people type them. Out: a query that is ready to be subscribed, with a comment
above it that says what it finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import xscl
from broker.text.units import parse_duration
from feeds.item import stream_name
from xscl.syntax.printer import quoted

Kind = Literal["stream", "block", "path", "text", "window", "count"]
"""What an answer is: the name of a stream or the title of a feed; a block such as `S//item`; a path
below it, `./title`; any text, or nothing; a duration; a number, 2 or more."""

Answers = Mapping[str, str]
"""The answers by the names of their questions, as `Question.read` gives them."""


class WrongAnswer(ValueError):
    """An answer cannot be used; the message says what is wanted."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a draft needs to know. `default` is its answer unless another is given; None if one has
    to be given."""

    name: str
    asks: str
    kind: Kind
    default: str | None

    def read(self, text: str) -> str:
        """An answer as the query has it. Raises WrongAnswer."""
        return _READ[self.kind](text.strip())


@dataclass(frozen=True, slots=True)
class Draft:
    """Something that people want. `finds` says what; `write` makes the query without its label."""

    name: str
    finds: str
    questions: tuple[Question, ...]
    write: Callable[[Answers], str]

    def text(self, id: str, given: Mapping[str, str]) -> str:
        """The text of the query; what is not given has its default. Raises WrongAnswer with the
        name of the question, and XsclError for an id that is none."""
        answers = {}
        for question in self.questions:
            text = given.get(question.name, question.default)
            if text is None or (not text and question.default is None):
                raise WrongAnswer(f"{question.name} is missing: {question.asks}")
            try:
                answers[question.name] = question.read(text)
            except WrongAnswer as error:
                raise WrongAnswer(f"{question.name}: {error}") from None
        finds = f"{self.finds[0].upper()}{self.finds[1:]}"
        made = f"-- {finds}.\n{id}:\n{self.write(answers)};\n"
        xscl.check([xscl.parse(made, f"{id}.xscl")])
        return made


# -- answers -----------------------------------------------------------------------------------


def _stream(text: str) -> str:
    if not text:
        raise WrongAnswer("a stream is missing, such as S for all feeds")
    return stream_name(text)


def _block(text: str) -> str:
    _parsed(text, text, "a block is a stream and its documents, such as Orders//order")
    if not re.match(r"[^\W\d][\w.-]*/", text):
        raise WrongAnswer("a block begins with its stream, such as Orders//order")
    return text


def _path(text: str) -> str:
    path = text if text.startswith(".") else f"./{text.lstrip('/')}"
    _parsed(path, f"S//a[{path}->a]", "a path is a name, or several, such as ./title or ./@id")
    return path


def _parsed(shown: str, query: str, wanted: str) -> None:
    """Raises WrongAnswer if the query that an answer makes is none, or is more than one."""
    try:
        (statement,) = xscl.parse(query).statements
    except (xscl.XsclError, ValueError):
        raise WrongAnswer(f"{shown!r} will not do: {wanted}") from None
    if not isinstance(statement, xscl.ast.Query) or not isinstance(
        statement.pattern, xscl.ast.Block
    ):
        raise WrongAnswer(f"{shown!r} will not do: {wanted}")


def _text(text: str) -> str:
    if not text.isprintable():
        raise WrongAnswer("a text is one line, without control characters")
    if "'" in text and '"' in text:
        raise WrongAnswer("a text has one kind of quotation marks at most")
    return text


def _window(text: str) -> str:
    try:
        parse_duration(text)
    except ValueError as error:
        raise WrongAnswer(str(error)) from None
    return text


def _count(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) < 2:
        raise WrongAnswer(f"{text!r} will not do: a number is wanted, 2 or more")
    return str(int(text))


_READ: Mapping[Kind, Callable[[str], str]] = {
    "stream": _stream,
    "block": _block,
    "path": _path,
    "text": _text,
    "window": _window,
    "count": _count,
}


# -- queries -----------------------------------------------------------------------------------


def _keyword(answers: Answers) -> str:
    """The filter for a word in the title, if one is given."""
    word = answers["keyword"].lower()
    return f"[contains(lower-case(./title), {quoted(word)})]" if word else ""


def _author(answers: Answers) -> str:
    name = answers["author"]
    return f"[./author = {quoted(name)}][./author->author]" if name else "[./author->author]"


def _operator(first: str, second: str) -> str:
    """In any order, except within one stream, where each pair would be found twice."""
    return "FOLLOWED BY" if first == second else "JOIN"


def _same_link(answers: Answers) -> str:
    first, second = answers["first"], answers["second"]
    return (
        "  SELECT title, site, site2, link\n"
        f"  FROM {first}//item[./item_url->link][./title->title][./channel_title->site]\n"
        f"       {_operator(first, second)} {{url(link) = url(link2) AND site != site2,"
        f" {answers['within']}}}\n"
        f"       {second}//item[./item_url->link2][./channel_title->site2]"
    )


def _same_title(answers: Answers) -> str:
    first, second = answers["first"], answers["second"]
    return (
        "  SELECT title, site, site2, link, link2\n"
        f"  FROM {first}//item[./title->title][./item_url->link][./channel_title->site]\n"
        f"       {_operator(first, second)} {{words(title) = words(title2) AND site != site2,"
        f" {answers['within']}}}\n"
        f"       {second}//item[./title->title2][./item_url->link2][./channel_title->site2]"
    )


def _keyword_alone(answers: Answers) -> str:
    return (
        "  SELECT title, link\n"
        f"  FROM {answers['stream']}//item{_keyword(answers)}[./title->title][./item_url->link]"
    )


def _three_feeds(answers: Answers) -> str:
    item = f"{answers['stream']}//item"
    return (
        "  SELECT title, link, f, g, h\n"
        f"  FROM {item}[./item_url->link][./title->title][./channel_title->f]\n"
        f"       FOLLOWED BY {{url(link) = url(link2) AND f != g}}\n"
        f"       {item}[./item_url->link2][./channel_title->g]\n"
        f"       FOLLOWED BY {{url(link2) = url(link3) AND g != h AND f != h}}\n"
        f"       {item}[./item_url->link3][./channel_title->h]\n"
        f"  WITHIN {answers['within']}"
    )


_ANSWERS = "words(title) = tokenize(words(answer), '^re ')"
"""An answer has the title of what it answers, perhaps behind "Re:"."""


def _post(answers: Answers) -> str:
    return f"{answers['stream']}//item{_keyword(answers)}{_author(answers)}[./title->title]"


def _reply(answers: Answers) -> str:
    return (
        "  SELECT author, title, answer, link\n"
        f"  FROM {_post(answers)}\n"
        f"       FOLLOWED BY {{{_ANSWERS}, {answers['within']}}}\n"
        f"       {answers['replies']}//item[./title->answer][./item_url->link]"
    )


def _no_reply(answers: Answers) -> str:
    return (
        "  SELECT author, title, link\n"
        f"  FROM {_post(answers)}[./item_url->link]\n"
        f"       FOLLOWED BY {{{_ANSWERS}, {answers['within']}}}\n"
        f"       NOT {answers['replies']}//item[./title->answer]\n"
        f"  WAIT {answers['wait']}"
    )


def _subject(answers: Answers) -> str:
    item, within = f"{answers['stream']}//item", answers["within"]
    more = int(answers["items"]) - 1
    return (
        "  SELECT subject, title, count(more) AS others\n"
        f"  FROM (NOT {item}[./category->earlier]\n"
        "        FOLLOWED BY {earlier = subject}\n"
        f"        {item}[./category->subject][./title->title] WITHIN {within})\n"
        f"       FOLLOWED BY {{subject = again, {within}}}\n"
        f"       ({item}->more[./category->again]){{{more},}}\n"
        f"  WAIT {answers['wait']}"
    )


def _sides(answers: Answers) -> tuple[str, str]:
    return (
        f"{answers['first']}->a[{answers['value']}->value]",
        f"{answers['second']}->b[{answers['value2']}->value2]",
    )


def _meet(answers: Answers) -> str:
    one, other = _sides(answers)
    operator = _operator(answers["first"], answers["second"])
    return (
        "  SELECT a, b\n"
        f"  FROM {one}\n"
        f"       {operator} {{value = value2, {answers['within']}}}\n"
        f"       {other}"
    )


def _missing(answers: Answers) -> str:
    one, other = _sides(answers)
    return (
        "  SELECT a\n"
        f"  FROM {one}\n"
        f"       FOLLOWED BY {{value = value2, {answers['within']}}}\n"
        f"       NOT {other}\n"
        f"  WAIT {answers['wait']}"
    )


# -- what people want --------------------------------------------------------------------------


def _items(asks: str = "stream of the items; S has all feeds", name: str = "stream") -> Question:
    return Question(name, asks, "stream", "S")


def _within(default: str) -> Question:
    return Question("within", "within which time", "window", default)


_WAIT = Question("wait", "how long to wait for what comes late", "window", "1 hour")
_TWO_FEEDS = (
    _items("stream of the one feed; S has all feeds", "first"),
    _items("stream of the other feed; S has all feeds", "second"),
)
_WORD = Question("keyword", "a word in the title, or nothing for any", "text", "")
_POSTS = (
    _items("stream of what is written; S has all feeds"),
    Question("author", "its author, or nothing for any", "text", ""),
    _WORD,
    _items("stream of the replies; S has all feeds", "replies"),
)
_DOCUMENTS = (
    Question("first", "the first documents, such as Orders//order", "block", None),
    Question("value", "the value in them that the others have too, such as ./id", "path", None),
    Question("second", "the other documents, such as Invoices//invoice", "block", None),
    Question("value2", "where they have it, such as ./order", "path", None),
)

DRAFTS: Mapping[str, Draft] = MappingProxyType(
    {
        draft.name: draft
        for draft in (
            Draft(
                *("same-link", "the same link in two feeds"),
                *((*_TWO_FEEDS, _within("2 days")), _same_link),
            ),
            Draft(
                *("same-title", "the same title in two feeds, whatever its signs and capitals"),
                *((*_TWO_FEEDS, _within("2 days")), _same_title),
            ),
            Draft(
                *("three-feeds", "a story that three feeds carry"),
                *((_items(), _within("1 hour")), _three_feeds),
            ),
            Draft(
                *("reply", "something by an author or about a keyword, and then a reply"),
                *((*_POSTS, _within("7 days")), _reply),
            ),
            Draft(
                *("no-reply", "something by an author or about a keyword to which nobody replies"),
                *((*_POSTS, _within("1 day"), _WAIT), _no_reply),
            ),
            Draft(
                *("keyword", "items with a word in their title"),
                *((_items(), Question("keyword", "the word", "text", None)), _keyword_alone),
            ),
            Draft(
                *(
                    "subject",
                    "a subject of which nobody wrote, and which then comes up again and again",
                ),
                (
                    _items(),
                    Question("items", "how many items", "count", "3"),
                    _within("1 day"),
                    _WAIT,
                ),
                _subject,
            ),
            Draft(
                *("meet", "documents of two streams that have a value in common"),
                *((*_DOCUMENTS, _within("30 days")), _meet),
            ),
            Draft(
                *("missing", "a document that no other follows in time, such as an unpaid order"),
                *((*_DOCUMENTS, _within("30 days"), _WAIT), _missing),
            ),
        )
    }
)
"""What people often want, by name."""
