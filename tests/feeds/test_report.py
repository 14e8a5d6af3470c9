"""How well real feeds are read; `report.txt` has the results."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Golden
from tests.feeds import agreement, expectations, recovery
from tests.feeds.data import needs_data

pytestmark = needs_data

REPORT = Path(__file__).parent / "report.txt"


def test_the_report(golden: Golden) -> None:
    agreed, _ = agreement.report()
    expected, _ = expectations.report()
    lines = [
        "Real feeds of six collections, read.",
        "",
        *recovery.census(),
        "",
        "",
        "Sound feeds, spoilt and read again: how many there are, can be read, are remarked on;",
        "their items, and the share that is there with the id and the title that it had.",
        "",
        *recovery.report(),
        "",
        "The same feeds read by the loose parser: the share of items whose field is as the strict",
        "one has it.",
        "",
        *recovery.both_parsers(),
        "",
        "",
        "Items beside those of another parser, and why they differ.",
        "",
        *agreed,
        "",
        "",
        "feedparser's own tests.",
        "",
        *expected,
    ]
    golden(REPORT, "\n".join(lines) + "\n")


def test_every_difference_from_the_other_parser_is_explained() -> None:
    _, unexplained = agreement.report()
    assert unexplained == []


def test_a_difference_is_seen() -> None:
    pair = next(agreement.pairs())
    assert agreement.judge(pair) == "agrees"
    changed = agreement.Pair(pair.feed, "title", ("x",), pair.ours, pair.entry, pair.text)
    assert agreement.judge(changed) == ""


def test_no_expectation_of_feedparser_is_broken_unexplained() -> None:
    _, left = expectations.report()
    assert left == set()


def test_a_broken_expectation_is_seen() -> None:
    asked = [case for case in expectations.cases() if expectations.about_items(case)]
    assert len(asked) > 400
    wrong = expectations.Case(asked[0].path, asked[0].body, "entries[0].title == '!'", {})
    assert not expectations.of_our_items(wrong)
    assert not expectations.of_our_parser(wrong)


def test_nothing_but_contents_depends_on_which_parser_reads_a_feed() -> None:
    for line in recovery.both_parsers():
        share, _, names = line.strip().partition("%  ")
        assert share == "100.0" or set(names.split(", ")) <= {"content", "description"}
