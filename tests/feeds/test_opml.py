from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.item import one_line
from feeds.opml import OpmlError, Subscription, read_opml, refusal, write_opml

FILE = b"""<?xml version="1.0"?>
<opml version="2.0"><head><title>Mine</title></head><body>
 <outline text="News">
  <outline text="Local" title="Local">
   <outline type="rss" text="City" title="The City" xmlUrl="http://a.example/city" htmlUrl="x"/>
  </outline>
  <outline type="rss" text="World" xmlURL=" http://a.example/world "/>
 </outline>
 <outline text="http://b.example/f" xmlUrl="http://b.example/f"/>
 <outline text="twice" xmlUrl="http://a.example/city"/>
 <outline text="empty folder"/>
</body></opml>"""


def test_folders_titles_and_repetitions() -> None:
    assert read_opml(FILE) == [
        Subscription("http://a.example/city", "The City", "News/Local"),
        Subscription("http://a.example/world", "World", "News"),
        Subscription("http://b.example/f"),
    ]


def test_a_sloppy_file_is_recovered() -> None:
    sloppy = (
        b'\n<?xml version="1.0"?><opml><body><outline text="Fish & chips" '
        b'xmlUrl="http://a.example/?a=1&b=2"><outline text=Q xmlUrl="http://b.example/"/>'
        b'<outline text="c" xmlUrl="http://c.example/"/></body>'
    )
    assert read_opml(sloppy)[0].url == "http://a.example/?a=1&b=2"
    assert [found.url for found in read_opml(sloppy)][-1] == "http://c.example/"


ONE, TWO = "http://one.example/", "http://two.example/"


@pytest.mark.parametrize(
    "outlines",
    [
        f'<outline text="a" xmlUrl="{ONE}"/><outline text="b" xmlUrl="{TWO}">',
        f'<outline text="a" xmlUrl="{ONE}"/></outline><outline text="b" xmlUrl="{TWO}"/>',
        f'<outline text="a" xmlUrl="{ONE}" text="again"/><outline text="b" xmlUrl="{TWO}"/>',
        f'<outline text="say "hi"" xmlUrl="{ONE}"/><outline text="b" xmlUrl="{TWO}"/>',
        f"<outline text=a xmlUrl={ONE} /><outline text=b xmlUrl='{TWO}'/>",
        f'<OUTLINE TEXT="a" XMLURL="{ONE}"/><Outline Text="b" XmlUrl="{TWO}"/>',
        f'<outline text="a < b" xmlUrl="{ONE}"/><outline text="b" xmlUrl="{TWO}"/>',
        f'<outline text="a&nbsp;&hellip;" xmlUrl="{ONE}"/><outline text="b" xmlUrl="{TWO}"/>',
        f'<outline text="\x02a" xmlUrl="{ONE}"/><outline text="b" xmlUrl="{TWO}"/>',
    ],
    ids=lambda text: text[:24],
)
def test_ways_not_to_be_well_formed(outlines: str) -> None:
    text = f'<opml><body><outline text="F">{outlines}</outline></body></opml>'
    found = read_opml(text.encode())
    assert [each.url for each in found] == [ONE, TWO]
    assert found[0].folder == "F"
    assert found[1].folder == ("" if "</outline><" in outlines else "F")


@pytest.mark.parametrize(
    "head",
    [
        "\n\n",
        "Here are my feeds:\n",
        '\n <?xml version="1.0" encoding="utf-8"?>',
        '<?xml version="1.0" encoding="utf-16"?>',
        '<!DOCTYPE opml SYSTEM "http://a.example/opml.dtd">',
        "<!-- a <b> -->",
    ],
)
def test_what_stands_before(head: str) -> None:
    body = f'<opml><outline text="é" xmlUrl="{ONE}"/></opml>'
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        if encoding != "utf-16" or head.strip().startswith("<"):
            assert read_opml((head + body).encode(encoding)) == [Subscription(ONE, "é")]


@pytest.mark.parametrize(
    ("url", "base", "reason"),
    [
        ("http://a.example/f", "/home/me/list.opml", ""),
        ("https://a.example/f", "http://b.example/list.opml", ""),
        ("file:///home/me/f.rss", "/home/me/list.opml", ""),
        ("/home/me/deep/f.rss", "file:///home/me/list.opml", ""),
        ("file:///home/me/f%20x.rss", "file:///home/me/list.opml", ""),
        ("file:///etc/passwd", "/home/me/list.opml", "a file outside the folder of the list"),
        ("/home/me/../you/f.rss", "/home/me/list.opml", "a file outside the folder of the list"),
        ("file:///home/me/%2e%2e/x", "/home/me/list.opml", "a file outside the folder of the list"),
        ("/home/mean/f.rss", "/home/me/list.opml", "a file outside the folder of the list"),
        ("../f.rss", "list.opml", "a file outside the folder of the list"),
        ("file:///home/me/f.rss", "http://b.example/l", "a file, named by a list from elsewhere"),
        ("f.rss", "https://b.example/l", "a file, named by a list from elsewhere"),
        ("ftp://a.example/f", "/home/me/list.opml", "a 'ftp:' address is not fetched"),
        ("http://[a/f", "/home/me/list.opml", "not an address"),
        ("file://[a/f", "/home/me/list.opml", "not an address"),
        ("javascript://x", "/home/me/list.opml", "a 'javascript:' address is not fetched"),
    ],
)
def test_a_list_that_others_wrote_does_not_name_just_anything(
    url: str, base: str, reason: str
) -> None:
    assert refusal(url, base) == reason


def test_hostile_lists_end_soon() -> None:
    began = time.process_time()
    lists = [
        b"<opml>" + b'<outline text="x">' * 200_000,
        b"<outline " * 200_000,
        b"<opml>" + b"<outline xmlUrl=a " * 100_000,
        b"&" * 2_000_000,
        b"<opml " + b'a="b" ' * 200_000 + b"><outline/>",
    ]
    for data in lists:
        with contextlib.suppress(OpmlError):
            read_opml(data)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("", "city.rss"),
        ("subscriptions.opml", "city.rss"),
        ("/home/me/subscriptions.opml", "/home/me/city.rss"),
        ("file:///home/me/subscriptions.opml", "file:///home/me/city.rss"),
        ("http://a.example/x/list.opml", "http://a.example/x/city.rss"),
    ],
)
def test_relative_addresses(base: str, url: str) -> None:
    (found,) = read_opml(b'<opml><outline xmlUrl="city.rss"/></opml>', base)
    assert found.url == url


def test_absolute_addresses_stay() -> None:
    data = b'<opml><outline xmlUrl="/a/b.rss"/><outline xmlUrl="http://a.example/"/></opml>'
    assert [found.url for found in read_opml(data, "/x/y.opml")] == [
        "/a/b.rss",
        "http://a.example/",
    ]


@pytest.mark.parametrize(
    "data", [b"", b"  ", b"hello", b"<opml/>", b"<rss><channel/></rss>", b"\0\0"]
)
def test_what_is_no_opml(data: bytes) -> None:
    with pytest.raises(OpmlError, match="opml: "):
        read_opml(data)


def test_entities_are_not_expanded_and_depth_is_harmless() -> None:
    bomb = b'<!DOCTYPE o [<!ENTITY a SYSTEM "file:///etc/hostname">]><o><outline text="&a;" xmlUrl="u"/></o>'
    assert [found.url for found in read_opml(bomb)] == ["u"]
    assert read_opml(bomb)[0].title == ""
    deep = b"<opml>" + b'<outline text="x">' * 200 + b'<outline xmlUrl="u"/>' + b"</outline>" * 200
    assert read_opml(deep)[0].folder == "/".join("x" * 200)


names = (
    st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1)
    .map(one_line)
    .filter(bool)
)


@given(
    st.lists(
        st.tuples(st.integers(), st.one_of(st.just(""), names), st.lists(names, max_size=3)),
        unique_by=lambda entry: entry[0],
        min_size=1,
    )
)
def test_what_is_written_is_read_again(entries: list[tuple[int, str, list[str]]]) -> None:
    written = [
        Subscription(f"http://a.example/{number}?a=1&b=<", title, "/".join(folders))
        for number, title, folders in entries
    ]
    read = read_opml(write_opml(written))
    assert sorted(read, key=repr) == sorted(written, key=repr)
