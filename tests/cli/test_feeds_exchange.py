"""`broker feeds import` and `export`: lists of feeds."""

from __future__ import annotations

from pathlib import Path

from feeds.opml import read_opml
from tests.cli.feeding import NEWS, NO_NEWS, Broker
from tests.feeds.data import SAMPLES
from tests.feeds.site import Site


def test_what_is_exported_was_imported(mine: Broker, tmp_path: Path) -> None:
    done = mine("import", SAMPLES / "subscriptions.opml")
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"subscriptions.opml: 17 feeds, 17 of them new\n{NO_NEWS}")
    out = tmp_path / "out.opml"
    assert mine("export", out).returncode == 0
    before = read_opml(
        (SAMPLES / "subscriptions.opml").read_bytes(), (SAMPLES / "subscriptions.opml").as_uri()
    )
    assert sorted(read_opml(out.read_bytes()), key=repr) == sorted(before, key=repr)
    assert mine("export").stdout.encode() == out.read_bytes()
    assert "17 feeds, 0 of them new" in mine("import", SAMPLES / "subscriptions.opml").stderr


def test_a_list_does_not_open_private_addresses_or_files(
    mine: Broker, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "mine.rss").write_bytes(NEWS)
    (tmp_path / "l.opml").write_text(
        f'<opml><outline xmlUrl="{site.url("/news.rss")}"/><outline xmlUrl="/etc/passwd"/>'
        '<outline xmlUrl="mine.rss"/><outline xmlUrl="gopher://a.example/"/>'
        '<outline xmlUrl="http://[bad/feed"/></opml>'
    )
    done = mine("import", tmp_path / "l.opml", "--folder", "Theirs", private=False)
    news = site.url("/news.rss")
    assert f"left out: {news}: 127.0.0.1 is a private address; to have" in done.stderr
    assert "--allow-private" in done.stderr
    assert done.stderr.endswith(f"5 feeds, 1 of them new, 4 left out\n{NO_NEWS}")
    assert "left out: /etc/passwd: a file outside the folder of the list" in done.stderr
    assert "left out: gopher://a.example/: a 'gopher:' address is not fetched" in done.stderr
    assert "left out: http://[bad/feed: not an address" in done.stderr
    assert [(feed["url"], feed["typed"], feed["folder"]) for feed in mine.listed()] == [
        ((tmp_path / "mine.rss").as_uri(), True, "Theirs"),
    ]
    assert mine("import", tmp_path / "l.opml", "--folder", "Theirs").returncode == 0
    assert [(feed["url"], feed["typed"]) for feed in mine.listed()][1:] == [(news, True)]
    assert site.asked == []
    assert mine("check").returncode == 0
    assert site.asked == ["/news.rss"]


def test_what_is_left_out_of_a_list_for_one_reason_has_it_said_once(
    mine: Broker, tmp_path: Path
) -> None:
    urls = [f"http://127.0.0.1:9/{n}.xml" for n in range(100)]
    path = tmp_path / "many.opml"
    outlines = "".join(f"<outline xmlUrl='{url}'/>" for url in urls)
    path.write_text(f"<opml>{outlines}</opml>")
    done = mine("import", path, private=False)
    said = done.stderr.splitlines()
    assert said[0].startswith("left out: 100 feeds: 127.0.0.1 is a private address")
    assert said[0].count("--allow-private") == 1
    assert said[1:10] == [f"  {url}" for url in urls[:9]]
    assert said[10:] == ["  and 91 more", f"{path}: 100 feeds, 0 of them new, 100 left out"]


def test_a_list_from_the_network(mine: Broker, site: Site) -> None:
    site.pages["/list.opml"] = b'<opml><outline xmlUrl="news.rss"/><outline xmlUrl="file:///x"/>'
    done = mine("import", site.url("/list.opml"))
    assert done.returncode == 0, done.stderr
    assert "left out: file:///x: a file, named by a list from elsewhere" in done.stderr
    assert [feed["url"] for feed in mine.listed()] == [site.url("/news.rss")]


def test_what_is_no_list(mine: Broker, tmp_path: Path, site: Site) -> None:
    for what, said in (
        (SAMPLES / "gannet.rss", "opml: no <outline> in the file"),
        (tmp_path / "none", "No such file or directory"),
        (site.url("/nothing"), "not found (404)"),
    ):
        done = mine("import", what)
        assert done.returncode == 1
        assert said in done.stderr
