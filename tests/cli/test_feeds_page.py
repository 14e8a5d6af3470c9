"""`broker feeds` behaves as its help and docs/feeds.md describe."""

from __future__ import annotations

import re

from lxml import etree

from broker.cli.feeds import feeds
from tests.docs.markdown import ROOT, code, tables

PAGE = ROOT / "docs" / "feeds.md"


def test_every_command_and_option_is_documented() -> None:
    for name, command in feeds.commands.items():
        assert command.help, name
        for parameter in command.params:
            if parameter.param_type_name == "option":
                shown = parameter.name == "form"
                assert shown or getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_the_page_shows_commands_and_options_that_exist() -> None:
    (table,) = tables(PAGE, "command", "what it does")
    shown = set()
    for row in table.rows:
        program, group, name, *options = code(row[0]).split()
        assert (program, group) == ("broker", "feeds")
        known = {option for parameter in feeds.commands[name].params for option in parameter.opts}
        assert set(options) == {option for option in known if option.startswith("--")}, name
        shown.add(name)
    assert shown == feeds.commands.keys()


def test_the_page_shows_the_elements_of_an_event() -> None:
    from feeds.feed_events import event_rows
    from feeds.spool import FeedState

    before = FeedState("http://a.example/", "http://a.example/", last_success=1, last_fetch=1)
    after = FeedState("http://a.example/", "http://b.example/", "T", problem="p", last_success=1)
    (row,) = event_rows(before, after, 10)
    names = [child.tag for child in etree.fromstring(row.xml)]
    text = PAGE.read_text(encoding="utf-8")
    shown = re.search(r"<feed-event .*?</feed-event>", text, re.DOTALL)
    assert shown is not None
    assert [child.tag for child in etree.fromstring(shown[0])] == names
