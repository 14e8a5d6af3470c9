"""Measures how much of a feed is recovered after typical damage.

Real feeds that are well-formed are spoilt, one way at a time, and read again. An item counts as
recovered if it is there with its id and its title as it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path

from feeds.adapter import Channel, parse_feed
from feeds.item import Item
from tests.feeds.data import DATA

FOLDERS = (
    "feeds_codehollow",
    "feeds_feedjira",
    "feeds_greatfire2015",
    "feeds_kagi200",
    "feeds_node_feedparser",
    "feeds_rbren",
)
# What is no feed in those folders: pages, fragments of a feed's content, gzip files.
NO_FEEDS = {
    "AmazonWebServicesBlogFirstEntryContent.xml",
    "HREFConsideredHarmfulFirstEntry.xml",
    "PaulDixExplainsNothingFirstEntryContent.xml",
    "TechCrunchFirstEntry.xml",
    "TechCrunchFirstEntryDescription.xml",
    "TenderLovemakingFirstEntry.xml",
    "TrotterCashionFirstEntry.xml",
    "compressed.xml",
    "invalid-characters-gzipped.xml",
    "notafeed.html",
    "unrecognized.rss",
}
LARGEST = 15_000
"""Bytes of the feeds that are spoilt; the others take long and tell the same."""


def files(folder: str) -> list[Path]:
    return sorted(
        path
        for path in (DATA / folder).rglob("*")
        if path.is_file()
        and not path.name.startswith("_")
        and path.suffix.lower() not in (".json", ".md", ".rb", ".js")
    )


def read(body: bytes) -> Channel:
    return parse_feed(body, "http://feeds.example/f", arrival=1)


@cache
def channel(path: Path) -> Channel:
    """A feed as it was found."""
    return read(path.read_bytes())


def _in_the_middle(text: bytes, what: bytes, into: bytes = b"") -> bytes:
    """Put something before the title in the middle of a feed, or within it."""
    titles = list(re.finditer(rb"<title[^>]*>(?:<!\[CDATA\[)?", text))
    found = titles[len(titles) // 2]
    return text[: found.start()] + into + found.group() + what + text[found.end() :]


def _without_one_end_tag(text: bytes) -> bytes:
    ends = list(re.finditer(rb"</title>", text))
    found = ends[len(ends) // 2]
    return text[: found.start()] + text[found.end() :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bare & in a link": lambda t: re.sub(rb"(<link>https?://[^<?]*)</link>", rb"\1?a=1&b=2</link>", t, count=1),
    "an undeclared entity": lambda t: re.sub(rb"(<description>|<summary[^>/]*>|<content[^>/]*>)", rb"\1&nbsp;", t, count=1),
    "an undeclared prefix": lambda t: _in_the_middle(t, b"", b"<zz:rating>5</zz:rating>"),
    "an end tag missing": _without_one_end_tag,
    "an end tag too many": lambda t: _in_the_middle(t, b"", b"</b>"),
    "an attribute without quotes": lambda t: _in_the_middle(t, b"", b"<thumb width=90/>"),
    "a control character": lambda t: _in_the_middle(t, b"\x02"),
    "a byte of another encoding": lambda t: _in_the_middle(t, b"\xe9"),
    "text before the declaration": lambda t: b"Notice: x in y.php on line 3\n" + t,
    "an error page behind it": lambda t: t + b"<br><b>Fatal error</b>: out of memory",
    "cut off in the middle": lambda t: t[: len(t) // 2],
}  # fmt: skip


@cache
def sound() -> tuple[tuple[bytes, Channel], ...]:
    """The real feeds that are well-formed UTF-8 and not too large, with what they hold."""
    found = []
    for folder in FOLDERS:
        for path in files(folder):
            body = path.read_bytes()
            if len(body) > LARGEST or path.name in NO_FEEDS or b"<title" not in body:
                continue
            try:
                body.decode()
            except UnicodeDecodeError:
                continue
            whole = channel(path)
            if whole.error is None and not whole.malformed and len(whole.items) > 1:
                found.append((body, whole))
    return tuple(found)


def report() -> list[str]:
    """A line for each damage: feeds spoilt, recovered with a remark, and the share of items."""
    lines = [f"{'':30}{'feeds':>6}{'read':>6}{'noted':>7}{'items':>7}{'recovered':>11}"]
    for name, damage in DAMAGES.items():
        spoilt = read_again = noted = items = recovered = 0
        for body, before in sound():
            broken = damage(body)
            if broken == body:
                continue
            after = read(broken)
            spoilt += 1
            read_again += after.error is None
            noted += bool(after.problems or after.error)
            titles = {item.id: _bare(item.title) for item in after.items}
            items += len(before.items)
            recovered += sum(titles.get(item.id) == _bare(item.title) for item in before.items)
        share = 100 * recovered / items
        lines.append(f"{name:30}{spoilt:6}{read_again:6}{noted:7}{items:7}{share:10.1f}%")
    return lines


def _bare(title: str) -> str:
    """A title without what the damage put into it."""
    return re.sub(r"[é\x02]|Ã©", "", title)


def census() -> list[str]:
    """What the folders hold: feeds, what is none and why, malformed ones with the items there."""
    lines = [
        f"{'':24}{'files':>6}{'feeds':>6}{'items':>7}{'dated':>8}{'remarks':>9}{'malformed':>11}"
    ]
    reasons: Counter[str] = Counter()
    malformed = []
    for folder in FOLDERS:
        channels = {path: channel(path) for path in files(folder)}
        read_well = {path: each for path, each in channels.items() if each.error is None}
        items = [item for each in read_well.values() for item in each.items]
        dated = 100 * sum(item.dated for item in items) / len(items)
        broken = {path: each for path, each in read_well.items() if each.malformed}
        remarks = sum(bool(each.problems) for each in read_well.values()) - len(broken)
        lines.append(
            f"{folder:24}{len(channels):6}{len(read_well):6}{len(items):7}{dated:7.1f}%"
            f"{remarks:9}{len(broken):11}"
        )
        reasons.update((each.error or "").partition(":")[0] for each in channels.values())
        for path, each in broken.items():
            there = len(re.findall(rb"<(?:rss:)?(?:item|entry)[\s>]", path.read_bytes()))
            why = each.problems[0].removeprefix("not well-formed: ")
            malformed.append(f"{len(each.items):6} of {there:3}  {why}")
    del reasons[""]
    lines += ["", "No feeds, and the reasons given:", ""]
    lines += [f"{count:6}  {reason}" for reason, count in sorted(reasons.items())]
    return [*lines, "", "Malformed as found, the items read and those there:", "", *malformed]


@cache
def both_parsers() -> list[str]:
    """For each field, the share of items in which the loose parser agrees with the strict one."""
    same: Counter[str] = Counter()
    total = 0
    for body, strict in sound():
        loose = read(body.rstrip()[:-1])  # without its last character no document is well-formed
        assert loose.malformed
        for one, other in zip(strict.items, loose.items, strict=True):
            total += 1
            for field in fields(Item):
                same[field.name] += getattr(one, field.name) == getattr(other, field.name)
    shares: dict[float, list[str]] = {}
    for name, count in same.items():
        shares.setdefault(100 * count / total, []).append(name)
    return [f"{share:6.1f}%  {', '.join(names)}" for share, names in sorted(shares.items())[::-1]]
