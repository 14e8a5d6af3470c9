"""Complete tasks of users, by commands only, from the first command to the results.

A hundred feeds out of a list; advisories that join with releases; the examples of the papers; a night
of operation whose disk is lost in the end.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import xscl
from feeds.opml import read_opml
from tests.cases.reading import CaseFiles, cases
from tests.cli.feeding import Broker
from tests.cli.serving import Serving, answering, run, serving
from tests.docs.markdown import ROOT, Fence, parts
from tests.feeds.data import atom, rss
from tests.feeds.site import Page, Site
from tests.oracle.oracle import Arrival
from tests.waiting import until


def query_of_the_page(name: str, folder: Path) -> Path:
    """The query that docs/howto.md shows under this name."""
    for part in parts(ROOT / "docs" / "howto.md"):
        if isinstance(part, Fence) and part.text.startswith(f"-- {name}:"):
            (folder / name).write_text(part.text)
            return folder / name
    raise AssertionError(name)


# -- a hundred feeds -------------------------------------------------------------------------


def story(n: int) -> str:
    link = f"http://a.example/{n // 2}"
    return f"<title>Story {n // 2}</title><guid>{link}#{n}</guid><link>{link}</link>"


def entry(n: int) -> str:
    link = f"http://a.example/{n // 2}"
    return f"<title>Story {n // 2}</title><id>{link}#{n}</id><link href='{link}'/>"


def as_json(n: int) -> bytes:
    item = {"id": str(n), "url": f"http://a.example/{n // 2}", "title": f"Story {n // 2}"}
    version = "https://jsonfeed.org/version/1.1"
    return json.dumps({"version": version, "title": "News", "items": [item]}).encode()


ILL: dict[int, tuple[Page | bytes, str]] = {
    90: (Page(b"", 410), "fetch: the feed is gone (410)"),
    91: (Page(b"", 404), "fetch: not found (404)"),
    92: (Page(b"", 500), "fetch: HTTP status 500"),
    93: (b"", "parse: the document is empty"),
    94: (b"<html><title>Sea</title></html>", "parse: an HTML page, not a feed"),
    99: (Page(b"", 429, {"Retry-After": "3600"}), "fetch: the server is busy (429)"),
}


def hundred() -> dict[str, Page | bytes]:
    """Three dialects; some are malformed, some have moved, some cannot be read."""
    pages: dict[str, Page | bytes] = {}
    for n in range(100):
        kinds = (rss(story(n)), atom(entry(n)), as_json(n))
        pages[f"/{n:02}.xml"] = ILL[n][0] if n in ILL else kinds[n % 3]
    pages["/80.xml"] = rss(story(80)).replace(b"</channel>", b"")
    pages["/95.xml"] = Page(b"", 301, {"Location": "/00.xml"})
    return pages


def test_a_hundred_feeds_of_a_list(tmp_path: Path) -> None:
    mine = Broker(tmp_path / "state")
    listed = tmp_path / "subscriptions.opml"
    with Site(hundred()) as site:
        outlines = "".join(
            f'<outline text="Feed {n}" xmlUrl="{site.url(f"/{n:02}.xml")}"/>' for n in range(100)
        )
        listed.write_text(f"<opml><body><outline text='Sea'>{outlines}</outline></body></opml>")
        assert "0 of them new, 100 left out" in mine("import", listed, private=False).stderr
        done = mine("import", listed, "--since", "INFINITY")
        assert done.stderr == f"{listed}: 100 feeds, 100 of them new\n"
        mine.poll()
        by_number = {int(str(feed["url"])[-6:-4]): feed for feed in mine.listed()}
        assert {n: str(feed["problem"]) for n, feed in by_number.items() if feed["problem"]} == {
            n: problem for n, (_, problem) in ILL.items()
        }
        assert {str(feed["folder"]) for feed in by_number.values()} == {"Sea"}
        assert mine("refresh", "--all").stderr.count("due now: ") == 99  # one is gone
        paused = site.url("/01.xml")
        assert mine("pause", paused).returncode == 0
        assert mine("remove", site.url("/90.xml")).returncode == 0
        out = tmp_path / "mine.opml"
        assert mine("export", out).returncode == 0
        assert {each.url for each in read_opml(out.read_bytes())} == {
            site.url(f"/{n:02}.xml") for n in range(100) if n != 90
        }
        assert "99 feeds, 0 of them new" in mine("import", out).stderr


# -- advisories and releases -----------------------------------------------------------------


def test_a_release_that_fixes_a_vulnerability_is_told_to_all_who_asked(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    advised, released = now - timedelta(days=2), now - timedelta(hours=5)
    advisory = (
        "<title>A long header makes kelp read beyond a buffer</title><guid>CVE-2026-0114</guid>"
        f"<category>kelp</category><pubDate>{format_datetime(advised)}</pubDate>"
    )
    releases = [
        f"<title>kelp {version}</title><id>{version}</id><updated>{released.isoformat()}</updated>"
        f"<link href='https://example.org/kelp/{version}'/><content type='html'>{notes}</content>"
        for version, notes in (("4.2.1", "Fixes CVE-2026-0114."), ("4.2.2", "Tide tables."))
    ]
    title = "<title>Release notes from kelp</title>"
    pages: dict[str, Page | bytes] = {
        "/advisories.rss": rss(advisory, channel="<title>Advisories</title>"),
        "/kelp.atom": atom(*releases, feed=title),
    }
    query = query_of_the_page("fixed.xscl", tmp_path)
    with (
        Site(pages) as site,
        answering(lambda _: (204, {}, b"")) as (hook, told),
        serving(tmp_path / "state") as service,
    ):
        service.done("subscribe", query, "--webhook", hook)
        log = tmp_path / "fixed.jsonl"
        service.done("channels", "add", "log", "--subscription", "fixed", "--file", log)
        urls = [site.url(path) for path in pages]
        run_options = ("--since", "14 days", "--allow-private", "--state", service.state)
        service.done("feeds", "add", *urls, *run_options)
        (match,) = service.matched("fixed", 1)
        assert match["values"]["release"] == ["kelp 4.2.1"]
        assert match["values"]["cve"] == ["CVE-2026-0114"]
        until(lambda: bool(told) and log.exists() and bool(log.read_text()), "nobody is told")
        assert [request.headers["webhook-id"] for request in told] == [match["id"]]
        assert [json.loads(line)["id"] for line in log.read_text().splitlines()] == [match["id"]]
        listed = json.loads(service.done("list", "fixed", "--format", "jsonl").splitlines()[0])
        reader = service.api.get(listed["atom_url"], headers={"Authorization": ""})
        assert "https://example.org/kelp/4.2.1" in reader.text


# -- the examples of the papers ----------------------------------------------------------------

EXAMPLES = [
    "chapter-4-selections",
    "kolchinsky-conjunction-and-sequence",
    "kolchinsky-stocks",
    "paper-q4-no-window",
    "paper-queries",
    "publish-chapter-4",
    "sase-overdose",
    "zstream-composition",
    "zstream-four-in-a-row",
    "zstream-query-1",
]
"""Those of tests/cases that are examples of the papers, with documents that make them match."""


def test_the_examples_of_the_papers_are_subscribed_and_found(tmp_path: Path) -> None:
    """One service has all of them, each on a stream of its own."""
    chosen = [case for case in cases() if case.name in EXAMPLES]
    assert [case.name for case in chosen] == EXAMPLES
    expected, found, begin = {}, {}, 0
    with serving(tmp_path / "state") as service:
        for number, case in enumerate(chosen):
            query = tmp_path / f"{case.name}.xscl"
            query.write_text(re.sub(r"\bS(?=/)", f"S{number}", case.query))
            assert run("check", query).returncode == 0
            service.done("subscribe", query)
            lines = tmp_path / f"{case.name}.jsonl"
            lines.write_text("".join(line(document, begin) for document in case.documents))
            begin += max(document.timestamp for document in case.documents)
            service.done("publish", f"S{number}", lines)
            program = xscl.check([xscl.parse(query.read_text())])
            ids = [each.id for each in program.queries]
            asked = ids if isinstance(case.expected["matches"], dict) else ids[-1:]
            for id, matches in zip(asked, case.given("matches").values(), strict=True):
                service.matched(id, len(matches))
                output = service.done("matches", id, "--format", "jsonl").splitlines()
                reply = [json.loads(each) for each in output if each.startswith("{")]
                expected[case.name, id] = published(case, matches)
                documents = [[one["id"] for one in match["documents"]] for match in reply]
                found[case.name, id] = published(case, documents)
    assert found == expected


def line(document: Arrival, begin: int) -> str:
    """To publish; `begin` is where the case before ended, since what is much older would be late."""
    at = (begin + document.timestamp) / 1_000_000
    return json.dumps({"id": document.id, "xml": document.xml, "timestamp": at}) + "\n"


def published(case: CaseFiles, matches: list[list[str]]) -> list[list[str]]:
    """Each match without derived documents, whose ids are made by the service."""
    known = {document.id for document in case.documents}
    return sorted([id for id in match if id in known] for match in matches)


# -- a night ---------------------------------------------------------------------------------

PAIR = """pair: SELECT t FROM S//book[./title->t]
  FOLLOWED BY {t = u, 1 h} S//post[./title->u];
"""


def part(folder: Path, begin: int, end: int) -> Path:
    """Books and posts in lines of JSON; each pair is a match."""
    path = folder / f"{begin}.jsonl"
    path.write_text(
        "".join(
            json.dumps({"xml": f"<{kind}><title>{n}</title></{kind}>", "timestamp": 100 * n + at})
            + "\n"
            for n in range(begin, end)
            for at, kind in enumerate(("book", "post"))
        )
    )
    return path


def publish(service: Serving, path: Path) -> str:
    """Send a file under a key, so that it may be sent again."""
    return service.done("publish", "S", path, "--key", "night")


def test_a_night_of_operation_whose_disk_is_lost(tmp_path: Path) -> None:
    state, copy, log = tmp_path / "state", tmp_path / "monday", tmp_path / "pairs.jsonl"
    query = tmp_path / "pair.xscl"
    query.write_text(PAIR)
    files = [part(tmp_path, n, n + 40) for n in range(0, 240, 40)]
    with answering(lambda _: (204, {}, b"")) as (hook, told):

        def all_told(count: int) -> None:
            until(
                lambda: len({r.headers["webhook-id"] for r in told}) == count,
                lambda: f"{len(told)} of {count} are told",
            )

        with serving(state) as service:
            service.done("subscribe", query, "--webhook", hook)
            service.done("channels", "add", "log", "--subscription", "pair", "--file", log)
            publish(service, files[0])
            assert service.signal(signal.SIGTERM) == 0
        with serving(state) as service:
            publish(service, files[1])
            service.signal(signal.SIGKILL)
        stopped = run("status", state=str(state))
        assert (stopped.returncode, "no service answers" in stopped.stderr) == (1, True)
        with serving(state) as service:
            service.until("/v1/status", lambda told: told["intake"]["backlog"] == 0)
            assert publish(service, files[1]).endswith("80 documents accepted, known already\n")
            meanwhile = threading.Thread(target=publish, args=(service, files[2]))
            meanwhile.start()
            assert "as of" in service.done("backup", copy)
            meanwhile.join()
            publish(service, files[3])
            all_told(160)
            service.signal(signal.SIGKILL)
        before = {json.loads(line)["id"] for line in log.read_text().splitlines()}
        shutil.rmtree(state)
        assert run("restore", copy, "--state", state).returncode == 0
        with serving(state) as service:
            for path in files[2:]:
                publish(service, path)
            service.until("/v1/status", lambda told: told["intake"]["backlog"] == 0)
            assert publish(service, files[5]).endswith("80 documents accepted, known already\n")
            matches = service.matched("pair", 240)
            all_told(240)
            assert len(matches) == len({match["id"] for match in matches}) == 240
            for kind in ("documents", "deliveries"):
                assert "were given up" in service.done("deadletters", "list", kind)
            assert "240 found" in service.done("status")
            assert "no events" in service.done("events")
            assert service.signal(signal.SIGTERM) == 0
    written = [json.loads(line)["id"] for line in log.read_text().splitlines()]
    assert set(written) == {match["id"] for match in matches}
    assert before <= set(written)
