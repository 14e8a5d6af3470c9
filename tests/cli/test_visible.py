"""Texts from elsewhere are shown with control characters escaped, so that they do not affect the
terminal."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker.model import DocumentRef, Match
from broker.text.formats import FORMATS
from broker.text.printable import visible, visible_lines
from tests.cli.serving import Serving, queries
from tests.feeds.site import Site

EVIL = "a\u009b2J\u202eb\u2028c"
SHOWN = r"a\x9b2J\u202eb\u2028c"


def test_what_moves_the_cursor_or_begins_a_line_is_written_as_an_escape() -> None:
    assert visible("a\x1b[2J\x07b\r\nc\td\x7f\ud800") == r"a\x1b[2J\x07b\r\nc\td\x7f\ud800"
    assert visible_lines("a\n\tb\r\x1bc") == "a\n\tb\\r\\x1bc"
    plain = "Ærø — 東京\u3000\u00a0👩\u200d💻 שלום\u200f \\n"
    assert visible(plain) == visible_lines(plain) == plain


@given(st.text())
def test_no_text_controls_a_terminal(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert all(c.isprintable() or c.isspace() or c not in "\x1b\x9b\u202e" for c in shown)
    assert visible(shown) == shown
    shown.encode()


def test_a_match_as_text_is_one_line_for_each_of_its_parts() -> None:
    match = Match(
        id="m",
        query="q\x1b[1m",
        stream="s\nq  forged",
        start_us=0,
        end_us=0,
        documents=(DocumentRef("d\x1b]0;title\x07\nq  forged", "S\x9b", 0),),
        values={"t\n": ["v\x1b[2J"]},
        nodes=(),
        result="no document",
    )
    text = FORMATS["text"](match)
    assert len(text.splitlines()) == 4
    assert not {c for c in text if not c.isprintable()} - {"\n"}
    assert r"d\x1b]0;title\x07 q forged" in text


def test_ids_of_documents(service: Serving, tmp_path: Path) -> None:
    service.done("subscribe", queries(tmp_path, "vis: SELECT t FROM Vis//book[./title->t];\n"))
    documents = [{"id": EVIL, "xml": f"<book><title>{EVIL}</title></book>"}]
    documents += [{"id": f"torn{EVIL}", "xml": "<book>"}]
    service.done("publish", "Vis", "-", stdin="\n".join(map(json.dumps, documents)))
    service.matched("vis", 1)
    service.until("/v1/dead-letters", lambda told: any(EVIL in each["id"] for each in told))
    for command in (("matches", "vis"), ("deadletters", "list"), ("status",), ("events",)):
        output = service.done(*command)
        assert not {c for c in output if not c.isprintable()} - {"\n"}, command
    # A title is on one line, so it has blanks for what would end the line.
    assert SHOWN.replace(r"\u2028", " ") in service.done("matches", "vis")
    assert f"torn{SHOWN}" in service.done("deadletters", "list")
    told = json.loads(service.broker("matches", "vis", "--format", "jsonl").stdout)
    assert told["documents"][0]["id"] == EVIL
    # What the service says of a name is shown in an error as well.
    result = service.broker("pause", EVIL, "vis")
    assert result.returncode == 1
    assert f"'{SHOWN}'" in result.stderr or SHOWN in result.stderr
    assert not {c for c in result.stderr if not c.isprintable()} - {"\n"}


def test_titles_of_feeds(tmp_path: Path) -> None:
    from tests.cli.feeding import Broker

    feed = json.dumps(
        {
            "version": "https://jsonfeed.org/version/1.1",
            "title": "News\x1b[2J\x9bof",
            "items": [{"id": "1\x1b[1m", "title": "t", "url": "http://a.example/1"}],
        }
    ).encode()
    mine = Broker(tmp_path / "state")
    with Site({"/feed": feed}) as site:
        assert mine("add", site.url("/feed")).returncode == 0
        mine.poll()
        listed = mine("list")
    assert listed.returncode == 0
    assert "News" in listed.stdout
    assert not {c for c in listed.stdout + listed.stderr if not c.isprintable()} - {"\n"}
