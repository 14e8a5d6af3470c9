from __future__ import annotations

import gzip
import os
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from feeds.fetch import Fetched, Fetcher, Request, local_path, user_agent
from feeds.transport import is_public
from feeds.unpack import ACCEPTED
from tests.feeds.data import rss
from tests.feeds.odd_server import Gauge, OddServer, dribble, response
from tests.waiting import PATIENCE

FEED = rss("<title>t</title>")
NOW = 1_791_187_200.0  # 2026-10-05T08:00:00Z


def fetch(url: str, **settings: object) -> Fetched:
    with Fetcher(allow_private=True, now=lambda: NOW, **settings) as fetcher:  # type: ignore[arg-type]
        return fetcher.fetch(Request(url))


def test_a_feed_and_what_is_sent_to_get_it() -> None:
    answer = response("200 OK", FEED, ETag='W/"x"', Last_Modified="Mon, 05 Oct 2026 08:00:00 GMT")
    with OddServer({"/f": answer}) as server:
        fetched = fetch(server.url("/f"))
        ((_, headers),) = server.requests
    assert (fetched.outcome, fetched.status, fetched.body) == ("ok", 200, FEED)
    assert (fetched.problem, fetched.moved_to) == (None, None)
    assert fetched.etag == 'W/"x"'
    assert fetched.last_modified == "Mon, 05 Oct 2026 08:00:00 GMT"
    assert headers["user-agent"] == user_agent()
    assert user_agent().startswith("xml-stream-broker/")
    assert headers["accept-encoding"] == ACCEPTED
    assert "authorization" not in headers
    assert "if-none-match" not in headers


def test_validators_go_back_verbatim() -> None:
    validators = ('W/"odd, öne"', "yesterday, or so")
    answer = response("200 OK", FEED, ETag=validators[0], Last_Modified=validators[1])
    with OddServer({"/f": answer}) as server, Fetcher(allow_private=True) as fetcher:
        first = fetcher.fetch(Request(server.url("/f")))
        server.answers["/f"] = response("304 Not Modified")
        fetched = fetcher.fetch(Request(server.url("/f"), first.etag, first.last_modified))
        (_, (_, headers)) = server.requests
    assert (fetched.outcome, fetched.body, fetched.problem) == ("not modified", b"", None)
    assert (headers["if-none-match"], headers["if-modified-since"]) == validators


@pytest.mark.parametrize(("length", "kept"), [(0, False), (1, True), (1_024, True), (1_025, False)])
def test_validators_are_kept_up_to_a_length(length: int, kept: bool) -> None:
    """They are stored, and sent in each request."""
    value = "v" * length
    answer = Fetched("u", "ok", "u", headers={"etag": value, "last-modified": value})
    assert (answer.etag, answer.last_modified) == ((value, value) if kept else (None, None))


@pytest.mark.parametrize(
    ("status", "headers", "outcome", "retry_after", "problem"),
    [
        ("410 Gone", {}, "gone", None, "fetch: the feed is gone (410)"),
        ("404 Not Found", {}, "missing", None, "fetch: not found (404)"),
        ("429 Slow Down", {"Retry_After": "120"}, "busy", 120.0, "fetch: the server is busy (429)"),
        (
            "503 Busy",
            {"Retry_After": "Mon, 05 Oct 2026 08:05:00 GMT"},
            "busy",
            300.0,
            "fetch: the server is busy (503)",
        ),
        ("503 Busy", {"Retry_After": "soon"}, "busy", None, "fetch: the server is busy (503)"),
        (
            "503 Busy",
            {"Retry_After": "Mon, 05 Oct 2020 08:05:00 GMT"},
            "busy",
            0.0,
            "fetch: the server is busy (503)",
        ),
        ("500 Oops", {}, "failed", None, "fetch: HTTP status 500"),
        ("302 Found", {}, "failed", None, "fetch: HTTP status 302"),
    ],
)
def test_answers_without_a_feed(
    status: str, headers: dict[str, str], outcome: str, retry_after: float | None, problem: str
) -> None:
    with OddServer({"/f": response(status, b"no", **headers)}) as server:
        fetched = fetch(server.url("/f"))
    assert (fetched.outcome, fetched.retry_after) == (outcome, retry_after)
    assert (fetched.problem, fetched.body) == (problem, b"")


def test_permanent_redirects_move_the_address_up_to_the_first_temporary_one() -> None:
    with OddServer(
        {
            "/a": response("301 Moved", Location="/b"),
            "/b": response("308 Moved", Location="c?x=1"),
            "/c?x=1": response("302 Found", Location="/d"),
            "/d": response("301 Moved", Location="/e"),
            "/e": response("200 OK", FEED),
        }
    ) as server:
        fetched = fetch(server.url("/a"))
        assert (fetched.outcome, fetched.body) == ("ok", FEED)
        assert fetched.moved_to == server.url("/c?x=1")
        assert (fetched.url, fetched.final_url) == (server.url("/a"), server.url("/e"))


def test_a_redirect_that_fails_moves_nothing() -> None:
    with OddServer(
        {"/a": response("301 Moved", Location="/b"), "/b": response("500 Oops")}
    ) as server:
        fetched = fetch(server.url("/a"))
    assert (fetched.outcome, fetched.moved_to) == ("failed", None)


def test_redirects_in_a_circle_end() -> None:
    with OddServer({"/a": response("302 Found", Location="/a")}) as server:
        assert fetch(server.url("/a")).problem == "fetch: more than 5 redirects"
        assert len(server.requests) == 6


@pytest.mark.parametrize(
    "target", ["file:///etc/hostname", "ftp://a.example/f", "gopher://a.example/f"]
)
def test_a_redirect_stays_with_http(target: str) -> None:
    with OddServer({"/a": response("301 Moved", Location=target)}) as server:
        fetched = fetch(server.url("/a"))
    scheme = target.partition(":")[0]
    assert fetched.outcome == "failed"
    assert fetched.problem == (
        f"fetch: redirected to a '{scheme}:' address, only http and https are fetched"
    )


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://a.example/f", "fetch: cannot fetch a 'ftp:' address"),
        ("http://", "fetch: "),
        ("file://[", "fetch: not a valid URL"),
        ("a\0b", "read: "),
        ("x" * 5_000, "read: x"),
        ("http://a:b/", "fetch: not a valid URL"),
        ("http://a.invalid:99999/", "fetch: "),
        ("http://[::1", "fetch: not a valid URL"),
        ("http://exa mple/", "fetch: "),
        ("http://no-such-host.invalid/", "fetch: no connection: no-such-host.invalid: "),
    ],
)
def test_addresses_that_lead_nowhere(url: str, problem: str) -> None:
    fetched = fetch(url)
    assert fetched.outcome in ("failed", "missing")
    assert fetched.problem is not None
    assert fetched.problem.startswith(problem)
    assert len(fetched.problem) < 400


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        fetched = fetch(f"http://127.0.0.1:{port}/")
    assert (fetched.outcome, fetched.status) == ("failed", None)
    assert fetched.problem is not None
    assert fetched.problem.startswith("fetch: no connection")


def test_compressed_and_too_large_bodies() -> None:
    bomb = gzip.compress(b" " * 5_242_881)
    with OddServer(
        {
            "/gzip": response("200 OK", gzip.compress(FEED), Content_Encoding="gzip"),
            "/bomb": response("200 OK", bomb, Content_Encoding="gzip"),
            "/large": response("200 OK", b" " * 6_000_000),
            "/cut": response("200 OK", gzip.compress(FEED)[:-9], Content_Encoding="gzip"),
            "/zstd": response("200 OK", b"x", Content_Encoding="zstd"),
        }
    ) as server:
        assert fetch(server.url("/gzip")).body == FEED
        for path in ("/bomb", "/large"):
            fetched = fetch(server.url(path))
            assert fetched.problem == "fetch: response body too large: 5242881 bytes"
            assert (fetched.outcome, fetched.body) == ("failed", b"")
        assert fetch(server.url("/cut")).problem == (
            "fetch: response body: compressed data ends too early"
        )
        assert fetch(server.url("/zstd")).problem == (
            "fetch: response body: unknown content encoding 'zstd'"
        )


def test_a_body_shorter_than_announced_is_no_feed() -> None:
    cut = response("200 OK", FEED).replace(b"Length: ", b"Length: 9")
    with OddServer({"/cut": cut}) as server:
        fetched = fetch(server.url("/cut"))
    assert (fetched.outcome, fetched.body) == ("failed", b"")


@pytest.mark.parametrize("slow", ["headers", "body", "silence"])
def test_time_limits_hold_against_a_server_that_dribbles(slow: str) -> None:
    """It would go on for longer than this test waits, and the limit that is not meant is far
    away."""
    times, over = round(PATIENCE / 0.1), threading.Event()
    answers: dict[str, Callable[[Callable[[bytes], object]], object]] = {
        "headers": dribble(b"HTTP/1.1 200 OK\r\n", b"X-More: x\r\n", times, 0.1),
        "body": dribble(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x", times, 0.1),
        "silence": lambda _: over.wait(PATIENCE),
    }
    silence = slow == "silence"
    with OddServer({"/f": answers[slow]}) as server:
        fetched = fetch(
            server.url("/f"),
            timeout=0.5 if silence else PATIENCE,
            max_seconds=PATIENCE if silence else 1.0,
        )
        over.set()
    expected = "no answer within 0.5 s" if silence else "took more than 1 s"
    assert fetched.problem == f"fetch: {expected}"


def test_private_addresses_are_refused_unless_allowed() -> None:
    with OddServer({"/f": response("200 OK", FEED)}) as server:
        for host in ("127.0.0.1", "localhost"):
            with Fetcher() as fetcher:
                fetched = fetcher.fetch(Request(server.url("/f", host)))
            assert fetched.outcome == "failed"
            assert fetched.problem is not None
            assert f"fetch: {host} is a private address" in fetched.problem
        assert server.requests == []
        assert fetch(server.url("/f", "localhost")).outcome == "ok"


def test_a_public_server_may_not_redirect_into_the_private_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 127.0.0.2 answers here like any loopback address; for this test it counts as a public one.
    monkeypatch.setattr("feeds.transport.is_public", lambda address: address == "127.0.0.2")
    with (
        OddServer({"/secret": response("200 OK", FEED)}) as private,
        OddServer({}, "127.0.0.2") as public,
    ):
        public.answers["/f"] = response("302 Found", Location=private.url("/secret"))
        public.answers["/g"] = response("302 Found", Location=public.url("/h"))
        public.answers["/h"] = response("200 OK", FEED)
        fetched = fetch(public.url("/f"))
        assert private.requests == []
        assert fetched.problem is not None
        assert "127.0.0.1 is a private address" in fetched.problem
        # The address that the user typed may be private, and may lead on in public.
        private.answers["/out"] = response("302 Found", Location=public.url("/g"))
        assert fetch(private.url("/out")).outcome == "ok"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2001:4860:4860::8888", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) == public


def start_all(fetcher: Fetcher, requests: list[Request]) -> dict[object, Fetched]:
    for number, request in enumerate(requests):
        fetcher.start(request, number)
    return dict(filter(None, (fetcher.next(10) for _ in requests)))


def test_hosts_in_parallel_but_one_connection_to_each() -> None:
    whole, answer = Gauge(), response("200 OK", FEED)
    gauges = Gauge(whole), Gauge(whole)
    with (
        OddServer({"/f": gauges[0].slow(answer, 0.2)}) as one,
        OddServer({"/f": gauges[1].slow(answer, 0.2)}) as two,
        Fetcher(allow_private=True) as fetcher,
    ):
        requests = [Request(server.url("/f")) for server in (one, two, one, two, one)]
        answers = start_all(fetcher, requests)
    assert {n: answer.url for n, answer in answers.items()} == {
        n: request.url for n, request in enumerate(requests)
    }
    assert {answer.outcome for answer in answers.values()} == {"ok"}
    assert (gauges[0].most, gauges[1].most, whole.most) == (1, 1, 2)


def test_no_more_than_a_few_connections_in_all() -> None:
    """Eight hosts, three connections: three are used, never more, and all get their turn."""
    gauge = Gauge()
    answers = {"/f": gauge.slow(response("200 OK", FEED), 0.1)}
    with ExitStack() as stack:
        servers = [
            stack.enter_context(OddServer(answers, f"127.0.0.{host}")) for host in range(2, 10)
        ]
        fetcher = stack.enter_context(Fetcher(allow_private=True, connections=3))
        got = start_all(fetcher, [Request(server.url("/f")) for server in servers * 2])
    assert [answer.outcome for answer in got.values()] == ["ok"] * 16
    assert gauge.most == 3


def test_a_host_that_asks_for_time_gets_it() -> None:
    clock = [NOW]
    with (
        OddServer({"/f": response("429 Slow Down", Retry_After="60")}) as server,
        OddServer({"/f": response("200 OK", FEED)}) as other,
        Fetcher(allow_private=True, now=lambda: clock[0]) as fetcher,
    ):
        server.answers["/g"] = response("200 OK", FEED)
        assert fetcher.fetch(Request(server.url("/f"))).retry_after == 60
        clock[0] += 20
        held = fetcher.fetch(Request(server.url("/g")))
        assert (held.outcome, held.status, held.retry_after) == ("busy", None, 40)
        assert held.problem == "fetch: the server has asked for time"
        assert fetcher.fetch(Request(other.url("/f"))).outcome == "ok"
        clock[0] += 41
        assert fetcher.fetch(Request(server.url("/g"))).outcome == "ok"
        assert [path for path, _ in server.requests] == ["/f", "/g"]


def test_gone_counts_for_the_address_that_was_asked_only() -> None:
    with OddServer(
        {
            "/moved": response("301 Moved", Location="/gone"),
            "/lent": response("302 Found", Location="/gone"),
            "/gone": response("410 Gone"),
        }
    ) as server:
        assert fetch(server.url("/moved")).outcome == "gone"
        lent = fetch(server.url("/lent"))
    assert (lent.outcome, lent.problem) == (
        "failed",
        "fetch: redirected to an address that is gone (410)",
    )


def test_cookies_are_not_kept() -> None:
    with (
        OddServer({"/f": response("200 OK", FEED, Set_Cookie="who=me; Path=/")}) as server,
        Fetcher(allow_private=True) as fetcher,
    ):
        for _ in range(2):
            fetcher.fetch(Request(server.url("/f")))
        assert all("cookie" not in headers for _, headers in server.requests)


def test_repeated_link_headers_are_one_list() -> None:
    answer = response("200 OK", FEED, Link='</h>; rel="hub"')
    answer = answer.replace(b"\r\n\r\n", b"\r\nLink: </s>; rel=self\r\n\r\n", 1)
    with OddServer({"/f": answer}) as server:
        assert fetch(server.url("/f")).headers["link"] == '</h>; rel="hub", </s>; rel=self'


def test_local_files(tmp_path: Path) -> None:
    path = tmp_path / "my feed.xml"
    path.write_bytes(FEED)
    with Fetcher() as fetcher:
        for address in (str(path), path.as_uri()):
            fetched = fetcher.fetch(Request(address))
            assert (fetched.outcome, fetched.body, fetched.final_url) == ("ok", FEED, address)
            again = fetcher.fetch(Request(address, fetched.etag))
            assert again.outcome == "not modified"
        os.utime(path, ns=(1, 1))
        assert fetcher.fetch(Request(str(path), fetched.etag)).outcome == "ok"
        path.write_bytes(gzip.compress(FEED))
        assert fetcher.fetch(Request(str(path))).body == FEED
        path.write_bytes(b" " * 5_242_881)
        too_large = fetcher.fetch(Request(str(path)))
        missing = fetcher.fetch(Request(str(tmp_path / "none")))
        directory = fetcher.fetch(Request(str(tmp_path)))
    assert too_large.problem == f"read: {path}: file too large: more than 5242880 bytes"
    assert (missing.outcome, missing.problem) == ("missing", f"read: {tmp_path}/none: no such file")
    assert directory.problem == f"read: {tmp_path}: is a directory"


def test_which_addresses_are_local() -> None:
    assert local_path("a/b.xml") == Path("a/b.xml")
    assert local_path("file:///a/b%20c.xml") == Path("/a/b c.xml")
    assert local_path("http://a.example/b.xml") is None
    assert local_path("ftp://a.example/b.xml") is None
