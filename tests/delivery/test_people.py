"""Matches for people: headlines, relative times, and why documents belong together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from broker import Broker, Document, Match
from broker.shared_match import SharedMatch
from broker.text.people import as_text, because, headline, later, lines, link, others

TIME = datetime(2026, 10, 5, 6, 40, tzinfo=UTC)
SAME = """
story: SELECT title, site AS paper, words(title2) AS told
       FROM S//item[./item_url->link][./title->title][./channel_title->site]
            FOLLOWED BY {link = link2 AND site != site2, 2 days}
            S//item[./item_url->link2][./title->title2][./channel_title->site2]
"""


def item(site: str, title: str) -> str:
    return (
        f"<item><channel_title>{site}</channel_title><item_url>https://c.example/1</item_url>"
        f"<title>{title}</title></item>"
    )


def found(*documents: Document, query: str = SAME) -> Match:
    broker = Broker()
    broker.subscribe(query)
    (match,) = broker.process(documents)
    return match


def story() -> Match:
    return found(
        Document("a", timestamp=TIME, xml=item("City", "Ferry  reopens")),
        Document(
            "b", timestamp=TIME + timedelta(minutes=95), xml=item("Business", "A ferry, again")
        ),
    )


def test_a_match_in_text() -> None:
    assert (
        as_text(story())
        == """\
story  2026-10-05 08:15 UTC
    Ferry reopens (City)
        2026-10-05 06:40 UTC
        https://c.example/1
    A ferry, again (Business)
        1 h 35 min later
        https://c.example/1
    joined because link = link2 = "https://c.example/1"
    title: Ferry reopens
    told: a ferry again
"""
    )


def test_a_whole_item_is_no_value_to_read() -> None:
    """Bound to ask what is in it, it would be told as all its texts in one."""
    match = found(
        Document("a", timestamp=TIME, xml="<advisory><cve>CVE-1</cve><of>kelp</of></advisory>"),
        Document("b", timestamp=TIME, xml=item("kelp", "Fixes\n CVE-1")),
        query="S//advisory[./cve->cve][./of->of]"
        " JOIN {of = site AND contains(notes, cve)} S//item->notes[./channel_title->site]",
    )
    assert "https://c.example/1" in match.values["notes"][0]
    assert [name for name, _ in others(match)] == ["cve"]


def test_values_have_the_names_of_select_too() -> None:
    match = story()
    assert match.values["paper"] == match.values["site"] == ["City"]
    assert match.values["told"] == ["a ferry again"]
    assert match.joined == (("link", "link2"),)
    assert match.to_json()["joined"] == [["link", "link2"]]
    assert match.to_json()["documents"][0] == {
        "id": "a",
        "stream": "S",
        "timestamp": "2026-10-05T06:40:00Z",
        "title": "Ferry reopens",
        "link": "https://c.example/1",
        "feed": "City",
    }
    shared = SharedMatch.of(match)
    assert [*SharedMatch.loads(shared.ids, shared.queries, *shared.dumps())] == [match]


def test_documents_that_are_no_items() -> None:
    match = found(
        Document("a", timestamp=TIME, xml="<o xmlns='urn:o'><name>Desk <b>lamp</b></name></o>"),
        Document(
            "https://b.example/", timestamp=TIME, xml="<p><link href='https://p.example'/></p>"
        ),
        query="S/o JOIN S/p",
    )
    assert [(each.title, each.feed, each.when) for each in lines(match)] == [
        ("Desk lamp", "S", "2026-10-05 06:40 UTC"),
        ("https://b.example/", "S", "at the same time"),
    ]
    assert [link(document) for document in match.documents] == [None, "https://p.example"]
    assert headline(match) == "Desk lamp"
    assert because(match) == []
    assert list(others(match)) == []


def test_three_blocks_that_one_value_joins() -> None:
    query = "S/a[./k->x] JOIN {x = y} S/b[./k->y] JOIN {y = z AND u = v} S/c[./k->z]".replace(
        "S/b[./k->y]", "S/b[./k->y][./n->u]"
    ).replace("S/c[./k->z]", "S/c[./k->z][./n->v]")
    texts = {"a": "<k>1</k>", "b": "<k>1</k><n>7</n>", "c": "<k>1</k><n>7</n>"}
    match = found(
        *(Document(n, timestamp=TIME, xml=f"<{n}>{text}</{n}>") for n, text in texts.items()),
        query=query,
    )
    assert sorted(map(sorted, match.joined)) == [["u", "v"], ["x", "y", "z"]]


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (0, "at the same time"),
        (59_000_000, "59 s later"),
        (3_600_000_000, "1 h later"),
        (3_661_000_000, "1 h 1 min later"),
        (86_400_000_000, "1 day later"),
        (90_061_000_000, "1 day 1 h later"),
        (5 * 86_400_000_000 + 60_000_000, "5 days 1 min later"),
    ],
)
def test_how_much_later(passed: int, said: str) -> None:
    assert later(passed) == said
