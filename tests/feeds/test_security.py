"""Attacks of servers and documents on the fetcher, over real sockets."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import brotli
import pytest

from feeds.fetch import Fetched, Fetcher, Request
from feeds.login import Login, split_login
from feeds.poll import Poller
from feeds.sample_server import FeedServer
from feeds.spool import Spool
from tests.feeds.data import rss
from tests.feeds.odd_server import OddServer, response
from tests.feeds.proxy import Proxy
from tests.waiting import PATIENCE, until

FEED = rss("<title>t</title>")


def fetch(url: str, login: Login | None = None, **settings: object) -> Fetched:
    with Fetcher(allow_private=True, **settings) as fetcher:  # type: ignore[arg-type]
        return fetcher.fetch(Request(url, login=login))


# -- too much --------------------------------------------------------------------------------


def endless(start: bytes, piece: bytes) -> Callable[[Callable[[bytes], object]], None]:
    def write(send: Callable[[bytes], object]) -> None:
        send(start)
        while True:  # until the fetcher hangs up
            send(piece)

    return write


def test_a_document_that_never_ends_is_cut_off_and_the_others_go_on(tmp_path: Path) -> None:
    head = b'HTTP/1.1 200 OK\r\n\r\n<rss version="2.0"><channel><title>t</title>'
    item = b"<item><title>and another one</title></item>" * 1_000
    with (
        OddServer({"/f": endless(head, item)}) as server,
        OddServer({"/g": response("200 OK", FEED)}, "127.0.0.2") as other,
        Fetcher(allow_private=True) as fetcher,
        Spool(tmp_path / "spool") as spool,
    ):
        poller = Poller(spool, fetcher, [server.url("/f"), other.url("/g")])
        wave = poller.fetch_wave()
        assert wave.rows == 1
        ((url, problem),) = wave.problems
    assert url == server.url("/f")
    assert problem == "fetch: response body too large: 5242881 bytes"


@pytest.mark.parametrize(
    ("start", "piece", "most", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: x\r\n" * 1_000, PATIENCE, "no whole answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 10_000, PATIENCE, "no whole answer in HTTP"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 1.0, "took more than 1 s"),
    ],
    ids=["headers", "one header", "promises"],
)
def test_headers_that_never_end(start: bytes, piece: bytes, most: float, reason: str) -> None:
    with OddServer({"/f": endless(start, piece)}) as server:
        fetched = fetch(server.url("/f"), max_seconds=most)
    assert fetched.outcome == "failed"
    assert fetched.problem is not None
    assert reason in fetched.problem


def test_brotli_bombs_stop_at_the_limit() -> None:
    bomb = brotli.compress(b" " * 100_000_000, quality=5)
    with OddServer({"/f": response("200 OK", bomb, Content_Encoding="br")}) as server:
        fetched = fetch(server.url("/f"))
        server.answers["/f"] = response("200 OK", brotli.compress(FEED), Content_Encoding="br")
        assert fetch(server.url("/f")).body == FEED
    assert fetched.problem == "fetch: response body too large: 5242881 bytes"


def test_redirects_between_two_hosts_end() -> None:
    with OddServer({}) as one, OddServer({}, "127.0.0.2") as two:
        one.answers["/f"] = response("301 Moved", Location=two.url("/f"))
        two.answers["/f"] = response("308 Moved", Location=one.url("/f"))
        fetched = fetch(one.url("/f"))
        assert fetched.problem == "fetch: more than 5 redirects"
        assert fetched.moved_to is None
        assert len(one.requests) + len(two.requests) == 6


# -- private addresses -----------------------------------------------------------------------


def test_a_connection_of_a_private_feed_serves_no_redirect_from_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kept-alive connection to a private host is not lent to a public server's redirect."""
    (tmp_path / "feed.rss").write_bytes(FEED)
    monkeypatch.setattr("feeds.transport.is_public", lambda address: address == "127.0.0.2")
    with (
        FeedServer(tmp_path) as private,
        OddServer({}, "127.0.0.2") as public,
        Fetcher(allow_private=True) as fetcher,
    ):
        assert fetcher.fetch(Request(private.url("feed.rss"))).private
        requests = private.requests
        public.answers["/f"] = response("302 Found", Location=private.url("feed.rss?delete=all"))
        fetched = fetcher.fetch(Request(public.url("/f")))
        assert private.requests == requests
    assert fetched.problem == "fetch: 127.0.0.1 is a private address, not allowed here"


@pytest.mark.parametrize(
    "host",
    ["127.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "localhost", "127.0.0.1.", "0"],
)
def test_private_addresses_in_disguise(host: str) -> None:
    with OddServer({"/f": response("200 OK", FEED)}) as server:
        port = urlsplit(server.url("/f")).port
        with Fetcher() as fetcher:
            fetched = fetcher.fetch(Request(f"http://{host}:{port}/f"))
        assert server.requests == []
    assert fetched.outcome == "failed"


def test_a_name_is_checked_again_for_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was public when it was looked up first gains nothing by becoming private."""
    answers = iter(["127.0.0.2", "127.0.0.1"])

    look_up = socket.getaddrinfo

    def resolve(host: str, port: int, *more: Any, **named: Any) -> Any:
        address = next(answers) if host == "feeds.example" else host
        return look_up(address, port, *more, **named)

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    monkeypatch.setattr("feeds.transport.is_public", lambda address: address == "127.0.0.2")
    with OddServer({"/f": response("200 OK", FEED)}, "127.0.0.2") as server, Fetcher() as fetcher:
        url = server.url("/f", "feeds.example")
        assert fetcher.fetch(Request(url)).outcome == "ok"
        problem = fetcher.fetch(Request(url)).problem
    assert problem == ("fetch: feeds.example is a private address, not allowed here")


# -- headers ---------------------------------------------------------------------------------


def test_nothing_that_a_server_sends_becomes_a_header_of_ours() -> None:
    with OddServer({}) as server:
        server.answers["/f"] = response("302 Found", Location="/g%0d%0aX-Evil:%20yes")
        server.answers["/g%0d%0aX-Evil:%20yes"] = response("200 OK", FEED)
        assert fetch(server.url("/f")).outcome == "ok"
        with Fetcher(allow_private=True) as fetcher:
            for odd in ('"a"\r\nX-Evil: yes', '"a"\nX-Evil: yes', '"\0"', '"\x1b[31m"'):
                fetcher.fetch(Request(server.url("/g%0d%0aX-Evil:%20yes"), odd, odd))
            fetched = fetcher.fetch(Request(server.url("/f\r\nX-Evil: yes")))
        assert len(server.requests) == 6
        for _, headers in server.requests:
            assert "x-evil" not in headers
            assert "if-none-match" not in headers
            assert "if-modified-since" not in headers
    assert fetched.outcome == "failed"


def test_what_a_server_sends_is_kept_within_reason() -> None:
    long = "x" * 50_000
    with OddServer({"/f": response("200 OK", FEED, ETag=long, Last_Modified=long)}) as server:
        fetched = fetch(server.url("/f"))
        assert (fetched.outcome, fetched.etag, fetched.last_modified) == ("ok", None, None)
        server.answers["/f"] = response("302 Found", Location=f"{long}://a.example/")
        problem = fetch(server.url("/f")).problem
    assert problem is not None
    assert problem.startswith("fetch: redirected to a 'xxx")
    assert len(problem) < 400


def test_a_login_with_line_breaks_stays_one_header() -> None:
    with OddServer({"/f": response("200 OK", FEED)}) as server:
        fetch(server.url("/f"), Login(server.url("/"), "me%0d%0aX-Evil:yes"))
        ((_, headers),) = server.requests
    assert "x-evil" not in headers
    assert headers["authorization"].startswith("Basic ")


# -- logins ----------------------------------------------------------------------------------


def test_a_login_goes_to_its_own_host_only() -> None:
    with OddServer({}) as ours, OddServer({}, "127.0.0.2") as other:
        ours.answers["/f"] = response("301 Moved", Location="/g")
        ours.answers["/g"] = response("302 Found", Location=other.url("/f"))
        location = other.url("/g").replace("http://", "http://evil:login@")
        other.answers["/f"] = response("302 Found", Location=location)
        other.answers["/g"] = response("200 OK", FEED)
        fetched = fetch(ours.url("/f"), Login(ours.url("/f"), "me:secret"))
        sent = [headers.get("authorization") for _, headers in ours.requests + other.requests]
    assert fetched.outcome == "ok"
    assert sent == ["Basic bWU6c2VjcmV0", "Basic bWU6c2VjcmV0", None, None]
    assert (fetched.moved_to, fetched.final_url) == (ours.url("/g"), other.url("/g"))
    assert "secret" not in repr((Login("u", "me:secret"), Request("u", login=Login("u", "secret"))))


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://a.example/other", True),
        ("http://a.example:80/", True),
        ("https://A.example/", True),
        ("https://a.example:8443/", False),
        ("http://a.example:8080/", False),
        ("http://b.a.example/", False),
    ],
)
def test_where_a_login_is_sent(url: str, sent: bool) -> None:
    assert Login("http://a.example/f", "me:secret").is_for(url) is sent
    assert not Login("https://a.example/f", "me:secret").is_for("http://a.example/f")


def test_a_login_is_taken_out_of_an_address() -> None:
    assert split_login("https://me:a%40b@a.example:8/f?x#y") == (
        "https://a.example:8/f?x#y",
        "me:a%40b",
    )
    for url in ("http://a.example/@b", "ftp://me@a.example/", "a@b.xml", "http://[::1", ""):
        assert split_login(url) == (url, None)
    assert Login("http://a.example/", "me:a%40b").header() == b"Basic bWU6YUBi"


def test_a_login_that_is_wanted_is_asked_for() -> None:
    with OddServer({"/f": response("401 No", WWW_Authenticate="Basic")}) as server:
        problem = fetch(server.url("/f")).problem
    assert problem == "fetch: a login is needed, or not accepted (401)"


# -- proxies ---------------------------------------------------------------------------------


def test_a_proxy_is_used_for_all_but_what_is_listed() -> None:
    with OddServer({"/f": response("200 OK", FEED)}) as server, Proxy({}) as proxy:
        proxy.where["feeds.invalid"] = urlsplit(server.url("/f")).netloc
        proxies = {"http": proxy.url("me:pass@"), "no": "localhost, .direct.example"}
        assert fetch("http://feeds.invalid/f", proxies=proxies).body == FEED
        assert proxy.requests == [("http://feeds.invalid/f", "Basic bWU6cGFzcw==")]
        assert fetch(server.url("/f", "localhost"), proxies=proxies).body == FEED
        assert len(proxy.requests) == 1


def test_a_proxy_reaches_no_private_address_for_others() -> None:
    with OddServer({"/f": response("200 OK", FEED)}) as server, Proxy({}) as proxy:
        host = urlsplit(server.url("/f")).netloc
        proxy.where |= {host: host, "feeds.invalid": host}
        with Fetcher(proxies={"http": proxy.url()}) as fetcher:
            assert fetcher.fetch(Request("http://feeds.invalid/f")).outcome == "ok"
            fetched = fetcher.fetch(Request(server.url("/f")))
            server.answers["/f"] = response("302 Found", Location=server.url("/f"))
            redirected = fetcher.fetch(Request("http://feeds.invalid/f"))
        for answer in (fetched, redirected):
            assert answer.problem is not None
            assert "127.0.0.1 is a private address" in answer.problem
        assert [path for path, _ in proxy.requests] == ["http://feeds.invalid/f"] * 2


def test_a_proxy_that_refuses_or_is_none() -> None:
    with Proxy({}) as proxy:
        refused = fetch("https://feeds.invalid/f", proxies={"https": proxy.url()})
        assert proxy.requests == [("feeds.invalid:443", None)]
    assert refused.problem == "fetch: ProxyError: 403 Forbidden"
    gone = fetch("http://feeds.invalid/f", proxies={"http": proxy.url()})
    assert gone.problem is not None
    assert gone.problem.startswith("fetch: no connection")
    for odd in ("socks5://127.0.0.1:1", "127.0.0.1:1", "http://"):
        with pytest.raises(ValueError, match="prox"):
            Fetcher(proxies={"http": odd})


# -- paths -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.rss",
        "/a/../../secret.rss",
        "/%2e%2e/secret.rss",
        "/..%2fsecret.rss",
        "/%2e%2e%2fsecret.rss",
        "/..%5csecret.rss",
        "//etc/hostname",
        "/%2fetc%2fhostname",
        "/link.rss",
        "/dir/secret.rss",
        "/a.rss%00.html",
        "/.",
        "/~root/",
    ],
)
def test_no_name_leads_out_of_the_directory(tmp_path: Path, path: str) -> None:
    site = tmp_path / "site"
    (site / "a").mkdir(parents=True)
    (tmp_path / "secret.rss").write_bytes(b"secret")
    (site / "link.rss").symlink_to(tmp_path / "secret.rss")
    (site / "dir").symlink_to(tmp_path)
    (site / "a.rss").write_bytes(FEED)
    with FeedServer(site) as server:
        connection = http.client.HTTPConnection(server.base.split("/")[2], timeout=PATIENCE)
        connection.putrequest("GET", path, skip_host=True)  # as it is, nothing tidied up
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (404, b"not found\n")
        connection.close()


def test_the_clock_of_a_fetch_runs_while_it_waits_for_its_host() -> None:
    done = threading.Event()

    def slow(_: Callable[[bytes], object]) -> None:
        done.wait(PATIENCE)

    with OddServer({"/slow": slow}) as server, OddServer({}, "127.0.0.2") as other:
        other.answers["/f"] = response("302 Found", Location=server.url("/slow"))
        with Fetcher(allow_private=True, max_seconds=1.0, timeout=PATIENCE) as fetcher:
            fetcher.start(Request(server.url("/slow")), "own")
            until(lambda: server.requests)
            fetcher.start(Request(other.url("/f")), "redirected")
            answers = dict(filter(None, (fetcher.next(PATIENCE) for _ in range(2))))
            done.set()
    assert {answer.problem for answer in answers.values()} == {"fetch: took more than 1 s"}
