"""`broker replay` compared with hand-written SQL over the same items."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from lxml import etree

from feeds.archive import replay
from tests.cli.test_queries import broker

ARCHIVE = Path(__file__).parents[3] / "shared" / "data" / "rss_bbc_sections" / "snapshots"

QUERIES = """
link: S//item->a[./item_url->u][./channel_title->c]
      JOIN {u = v AND c != d, 1 day}
      S//item->b[./item_url->v][./channel_title->d];
title: business//item->a[./title->t] JOIN {t = s, 1 day} technology//item->b[./title->s];
"""

# A pair is judged when its later item arrives, by the version that each of the two had then.
THEN = """greatest(a.first, b.first) >= a.since AND greatest(a.first, b.first) < a.until
      AND greatest(a.first, b.first) >= b.since AND greatest(a.first, b.first) < b.until
      AND abs(a.at - b.at) <= 86400000000"""
SQL = {
    "link": f"""SELECT count(*) FROM versions a JOIN versions b
                ON a.url = b.url AND a.channel <> b.channel WHERE {THEN}""",
    "title": f"""SELECT count(*) FROM versions a JOIN versions b ON a.title = b.title
                 WHERE list_contains(a.streams, 'business')
                   AND list_contains(b.streams, 'technology') AND {THEN}""",
}


@pytest.mark.skipif(not ARCHIVE.is_dir(), reason=f"no feed archive at {ARCHIVE}")
def test_the_archive_joins_as_sql_says(tmp_path: Path) -> None:
    queries = tmp_path / "q.xscl"
    queries.write_text(QUERIES)
    result = broker("replay", ARCHIVE, queries, "--lateness", "INFINITY")
    assert result.returncode == 0, result.stderr
    matches = [json.loads(line) for line in result.stdout.splitlines()]
    assert len({match["id"] for match in matches}) == len(matches)

    versions: list[dict[str, object]] = []
    newest: dict[tuple[str, str], dict[str, object]] = {}
    for position, row in enumerate(replay(ARCHIVE)):
        if row.error is None:
            root = etree.fromstring(row.xml)
            before = newest.get((row.source, row.id))
            if before is not None:
                before["until"] = position
            version = {
                "url": root.findtext("item_url"),
                "title": root.findtext("title"),
                "channel": root.findtext("channel_title"),
                "streams": list(row.streams),
                "at": row.timestamp,
                "first": position if before is None else before["first"],
                "since": position,
                "until": 2**62,
            }
            newest[row.source, row.id] = version
            versions.append(version)
    connection = duckdb.connect()
    connection.register("versions", pa.Table.from_pylist(versions))
    for query, sql in SQL.items():
        (expected,) = connection.execute(sql).fetchone() or (None,)
        assert expected, query
        assert sum(match["query"] == query for match in matches) == expected


def test_where_nothing_matches_it_says_what_tells_why(tmp_path: Path) -> None:
    feed = tmp_path / "archive" / "news"
    feed.mkdir(parents=True)
    item = "<item><title>a</title><link>http://a.example/1</link></item>"
    (feed / "20260101T000000Z_1.xml").write_text(
        f'<rss version="2.0"><channel><title>News</title>{item}</channel></rss>'
    )
    (tmp_path / "q.xscl").write_text("S//item[./titel->t];")
    words = ("replay", tmp_path / "archive", tmp_path / "q.xscl", "--state", tmp_path / "state")
    result = broker(*words)
    assert result.returncode == 0
    asked = f"broker why {tmp_path}/q.xscl --state {tmp_path}/state"
    assert f"nothing matched; this tells why: {asked}\n" in result.stderr
    assert "./title" in broker(*asked.split()[1:]).stdout


def test_a_directory_that_is_no_archive_is_told(tmp_path: Path) -> None:
    tmp_path.joinpath("q.xscl").write_text("S//item[./title->t];")
    result = broker("replay", tmp_path, tmp_path / "q.xscl")
    assert result.returncode == 0
    assert f"{tmp_path}: no snapshot is there: they are files named" in result.stderr
