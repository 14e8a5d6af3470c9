"""`broker new`: the queries that it writes match what they are for, and how it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from broker import Document, advice
from broker.drafts import DRAFTS, WrongAnswer
from tests.cli.terminal import CTRL_C, terminal
from tests.command import run as run_command
from tests.docs.markdown import ROOT, Fence, code, section, tables
from tests.docs.running import read_documents, run

GIVEN = {
    "keyword": {"keyword": "Tide"},
    "reply": {"author": "Mara", "keyword": "Tide"},
    "no-reply": {"author": "Mara", "keyword": "tide"},
    "meet": {
        "first": "Orders//order",
        "value": "id",
        "second": "Invoices//invoice",
        "value2": "./@order",
    },
    "missing": {
        "first": "Orders//order",
        "value": "@id",
        "second": "Invoices//invoice",
        "value2": "order",
    },
}
"""Answers, where the defaults are not enough."""


def item(id: str, at: str, feed: str = "Radio", **children: str) -> str:
    """A feed item with these children, at a time of one week."""
    inner = {"channel_title": feed, "item_url": f"https://e.example/{id}", "title": id, **children}
    elements = "".join(f"<{name}>{text}</{name}>" for name, text in inner.items())
    return f'<doc id="{id}" at="2026-10-{at}"><item>{elements}</item></doc>'


def other(id: str, stream: str, at: str, xml: str) -> str:
    return f'<doc id="{id}" stream="{stream}" at="2026-10-{at}">{xml}</doc>'


LINK = "https://e.example/bridge"
CASES: dict[str, tuple[list[str], list[str]]] = {
    "same-link": (
        [
            item("a", "05 08:00", item_url=LINK),
            item("b", "05 09:00", item_url=LINK),
            item("c", "06 09:00", "City", item_url=f"{LINK}/?utm_source=rss"),
            item("d", "09 09:00", "Planet", item_url=LINK),
        ],
        ["a c", "b c"],
    ),
    "same-title": (
        [
            item("a", "05 08:00", title="The bridge is open!"),
            item("b", "05 09:00", title="the Bridge is open"),
            item("c", "06 09:00", "City", title="The bridge: is open"),
        ],
        ["a c", "b c"],
    ),
    "three-feeds": (
        [
            item("a", "05 08:00", "Radio", item_url=LINK),
            item("b", "05 08:20", "City", item_url=LINK),
            item("c", "05 08:40", "City", item_url=LINK),
            item("d", "05 08:50", "Planet", item_url=LINK),
            item("e", "05 09:30", "Gull", item_url=LINK),
        ],
        ["a b d", "a c d", "c d e"],
    ),
    "reply": (
        [
            item("a", "05 08:00", author="Mara", title="The Tide Clerk"),
            item("b", "05 08:00", author="Jon", title="The Tide Clerk"),
            item("c", "05 08:00", author="Mara", title="The Clerk"),
            item("d", "06 08:00", title="Re: The tide clerk"),
            item("e", "06 09:00", title="Re: The clerk"),
            item("f", "15 09:00", title="Re: The tide clerk"),
        ],
        ["a d"],
    ),
    "no-reply": (
        [
            item("a", "05 08:00", author="Mara", title="The Tide Clerk"),
            item("b", "05 08:00", author="Mara", title="The tide turns"),
            item("c", "05 08:00", author="Jon", title="The tide"),
            item("d", "06 07:00", title="Re: The tide clerk"),
            item("e", "08 08:00"),
        ],
        ["b"],
    ),
    "keyword": ([item("a", "05 08:00", title="High TIDE"), item("b", "05 08:00")], ["a"]),
    "subject": (
        [
            item("x", "05 08:00", category="boats"),
            item("a", "06 09:00", category="bridge"),
            item("b", "06 10:00", category="bridge"),
            item("c", "06 11:00", category="bridge"),
            item("y", "06 11:00", category="boats"),
            item("z", "09 11:00"),
        ],
        ["a b c"],
    ),
    "meet": (
        [
            other("a", "Orders", "05 08:00", "<order><id>7</id></order>"),
            other("b", "Orders", "05 08:00", "<order><id>8</id></order>"),
            other("c", "Invoices", "09 08:00", "<invoice order='7'/>"),
        ],
        ["a c"],
    ),
    "missing": (
        [
            other("a", "Orders", "05 08:00", "<order id='7'/>"),
            other("b", "Orders", "05 08:00", "<order id='8'/>"),
            other("c", "Invoices", "09 08:00", "<invoice><order>7</order></invoice>"),
            '<doc id="d" stream="Orders" at="2026-11-09 08:00"><order id="9"/></doc>',
        ],
        ["b"],
    ),
}
"""For each draft documents, and the documents of each match."""


def documents(name: str) -> list[Document]:
    return read_documents("".join(CASES[name][0]))


@pytest.mark.parametrize("name", DRAFTS)
def test_each_draft_matches_what_it_is_for_and_nothing_else(name: str) -> None:
    text = DRAFTS[name].text("mine", GIVEN.get(name, {}))
    found = [" ".join(d.id for d in match.documents) for match in run(text, documents(name))[0]]
    assert sorted(found) == CASES[name][1]


@pytest.mark.parametrize("name", DRAFTS)
def test_each_draft_is_checked_without_a_warning(name: str) -> None:
    text = DRAFTS[name].text("mine", GIVEN.get(name, {}))
    program = xscl.check([xscl.parse(text)])
    assert [*advice.warnings(program)] == []
    assert [query.id for query in program.queries] == ["mine"]
    assert text.startswith(f"-- {DRAFTS[name].finds[0].upper()}")


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("keyword", {}, "keyword is missing"),
        ("keyword", {"keyword": ""}, "keyword is missing"),
        ("keyword", {"keyword": '"it\'s"'}, "one kind of quotation marks"),
        ("keyword", {"keyword": "a\nb"}, "one line"),
        ("same-link", {"first": " "}, "a stream is missing"),
        ("same-link", {"within": "soon"}, "is no duration"),
        ("subject", {"items": "1"}, "2 or more"),
        ("meet", {"first": "Orders", "value": "id"}, "first: .*Orders//order"),
        ("meet", {**GIVEN["meet"], "value": "]; S//x"}, "value: .*a path is a name"),
        ("meet", {**GIVEN["meet"], "first": "S//a FOLLOWED BY S//b"}, "a block is a stream"),
        ("meet", {**GIVEN["meet"], "second": "//b"}, "begins with its stream"),
    ],
)
def test_what_will_not_do_is_said(name: str, given: dict[str, str], wanted: str) -> None:
    with pytest.raises(WrongAnswer, match=wanted):
        DRAFTS[name].text("mine", given)


def test_quotation_marks_and_titles_of_feeds_are_taken_as_they_are() -> None:
    given = {"keyword": "it's", "stream": "Harbour Radio: News"}
    text = DRAFTS["keyword"].text("mine", given)
    assert 'Harbour_Radio_News//item[contains(lower-case(./title), "it\'s")]' in text


def test_the_page_has_every_draft_and_a_query_as_it_is_written() -> None:
    page = ROOT / "docs" / "howto.md"
    (table,) = tables(page, "kind", "what it finds")
    shown = {code(kind): finds for kind, finds in table.rows}
    assert shown == {draft.name: draft.finds for draft in DRAFTS.values()}
    fences = [part for part in section(page, "Have a query written") if isinstance(part, Fence)]
    assert fences[-1].text == DRAFTS["same-link"].text("same-link", {"within": "1 day"})


# -- the command -----------------------------------------------------------------------------


def broker(*arguments: str, cwd: Path, text: str = "") -> tuple[int, str, str]:
    ended = run_command([*arguments], cwd=cwd, input=text)
    return ended.returncode, ended.stdout, ended.stderr


def test_through_a_pipe_nothing_is_asked(tmp_path: Path) -> None:
    code, text, said = broker("new", "keyword", "--set", "keyword=tide", cwd=tmp_path)
    assert (code, said) == (0, "")
    assert broker("check", "-", cwd=tmp_path, text=text) == (0, "", "1 query, no errors\n")
    code, _, said = broker("new", "keyword", cwd=tmp_path, text="tide\n")
    assert (code, "--set keyword=" in said) == (2, True)
    code, _, said = broker("new", cwd=tmp_path)
    assert code == 2
    assert all(draft.finds in said for draft in DRAFTS.values())
    code, _, said = broker("new", "same-lnk", cwd=tmp_path)
    assert (code, "'same-link', 'same-title'" in said) == (2, True)
    code, _, said = broker("new", "subject", "--set", "item=3", cwd=tmp_path)
    assert (code, "stream, items, within, wait" in said) == (2, True)
    code, _, said = broker("new", "subject", "--id", "a b", cwd=tmp_path)
    assert (code, "'a b' is no name" in said) == (2, True)


def test_a_file_is_not_replaced_unless_that_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "mine.xscl"
    file.write_text("kept")
    code, _, said = broker("new", "subject", "-o", "mine.xscl", cwd=tmp_path)
    assert (code, "use --force" in said, file.read_text()) == (1, True, "kept")
    code, _, said = broker("new", "subject", "-o", "mine.xscl", "--force", cwd=tmp_path)
    assert (code, "broker subscribe mine.xscl" in said) == (0, True)
    assert file.read_text() == DRAFTS["subject"].text("subject", {})
    code, _, said = broker("new", "subject", "-o", "no/mine.xscl", cwd=tmp_path)
    assert (code, "No such file" in said, "Traceback" in said) == (1, True, False)


def test_on_a_terminal_it_asks(tmp_path: Path) -> None:
    (tmp_path / "links.xscl").write_text("kept")
    with terminal(["new"], cwd=tmp_path) as typed:
        typed.until("What do you want to find?", "number or name")
        typed.type("12\r")
        typed.until("is none of them")
        typed.type("same-lnk\r")
        typed.until("did you mean same-link?")
        typed.type("1\r")
        typed.until("stream of the one feed", "[S]")
        typed.type("\r")
        typed.until("stream of the other feed")
        typed.type("Courier City\r")
        typed.until("within which time [2 days]")
        typed.type("soon\r")
        typed.until("is no duration")
        typed.type("3 h\r")
        typed.until("name of the query [same-link]")
        typed.type("links\r")
        typed.until("file to write, or - to show it [links.xscl]")
        typed.type("\r")
        typed.until("links.xscl is there already: replace it?")
        typed.type("y\r")
        ended = typed.ended()
    assert ended.code == 0, ended.text
    expected = DRAFTS["same-link"].text("links", {"second": "Courier City", "within": "3 h"})
    assert (tmp_path / "links.xscl").read_text() == expected
    assert broker("check", "links.xscl", cwd=tmp_path)[0] == 0


@pytest.mark.parametrize("key", [CTRL_C, "\x04"])
def test_ctrl_c_and_ctrl_d_end_it_and_nothing_is_written(tmp_path: Path, key: str) -> None:
    with terminal(["new", "same-title"], cwd=tmp_path) as typed:
        typed.until("stream of the one feed")
        typed.type(key)
        ended = typed.ended(pressing=key)
    assert (ended.code, "Traceback" in ended.text) == (130, False), ended.text
    assert not [*tmp_path.iterdir()]
