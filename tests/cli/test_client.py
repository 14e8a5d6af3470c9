"""The commands that talk to a service, as a user types them, against a real one."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from tests.cli.serving import Serving, answering, book, queries, run, serving

# -- finding it ------------------------------------------------------------------------------


def test_where_no_service_is_that_is_said(tmp_path: Path, service: Serving) -> None:
    done = run("status", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "broker: no service runs on broker-state: start it with broker serve --state broker-state, "
        "or say where it is with --state or --url\n"
    )
    done = run("status", "--state", tmp_path)
    assert done.stderr.endswith(f"start it with broker serve --state {tmp_path}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        done = run("status", "--url", url, token="x")
    assert (done.returncode, done.stderr) == (1, f"broker: no service answers at {url} (--url)\n")
    for url in ("127.0.0.1:8321", "ftp://a.example", "http://"):
        done = run("status", "--url", url, token="x")
        assert done.returncode == 2
        assert "not an address" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_another_user_is_told_how_to_ask(tmp_path: Path) -> None:
    (tmp_path / "service.json").touch(0o000)
    for command in ("list", "matches"):
        done = run(command, "--state", tmp_path)
        assert done.returncode == 1
        assert "only the user that runs the service may read it; as another one give --url" in (
            done.stderr
        )


def test_the_token_comes_from_the_state_a_file_or_the_environment(
    service: Serving, tmp_path: Path
) -> None:
    url = json.loads((service.state / "service.json").read_text())["url"]
    token = (service.state / "token").read_text().strip()
    assert run("list", "--url", url, token=token).returncode == 0
    assert run("list", token_file=str(service.state / "token"), url=url).returncode == 0
    done = run("list", "--url", url)
    assert done.returncode == 2
    assert "a token is needed" in done.stderr
    assert "server.token with --token-file or the variable BROKER_TOKEN" in done.stderr
    done = run("list", "--url", url, token="wrong")
    assert done.returncode == 1
    assert "does not take the token in BROKER_TOKEN: " in done.stderr
    assert "server.token (--token-file, or the variable BROKER_TOKEN)" in done.stderr
    done = run("list", "--url", url, "--token-file", tmp_path / "none")
    assert (done.returncode, done.stderr) == (2, f"broker: {tmp_path / 'none'}: no such file\n")
    (tmp_path / "none").touch()
    done = run("list", "--url", url, "--token-file", tmp_path / "none")
    assert done.stderr == f"broker: {tmp_path / 'none'}: there is no token in it\n"
    (tmp_path / "service.json").write_text((service.state / "service.json").read_text())
    done = run("list", "--state", tmp_path)
    assert done.returncode == 2
    assert "the service has a token of its settings" in done.stderr
    (tmp_path / "service.json").write_text("{")
    assert "not as the service writes it" in run("list", "--state", tmp_path).stderr


# -- subscriptions ---------------------------------------------------------------------------


def test_errors_are_shown_with_carets_before_a_service_is_asked(tmp_path: Path) -> None:
    path = queries(tmp_path, "q: SELECT t FROM S//item[[;\n")
    done = run("subscribe", path, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{path}:1:" in done.stderr
    assert "^" in done.stderr
    assert done.stderr == run("check", path).stderr
    empty = queries(tmp_path, "LET week = 7 days;\n", "empty.xscl")
    done = run("subscribe", empty, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "broker: the query files hold no query\n")


def test_a_subscription_from_beginning_to_end(service: Serving, tmp_path: Path) -> None:
    path = queries(tmp_path, "life-a: SELECT t FROM LifeA//book[./title->t];\n")
    said = service.done("subscribe", path)
    assert said.startswith("life-a: counts from document ")
    assert service.done("subscribe", path) == "life-a: was there already, and goes on\n"
    service.done("publish", "LifeA", "-", stdin=book("one"))
    (match,) = service.matched("life-a", 1)
    assert match["values"] == {"t": ["one"]}

    assert service.done("pause", "life-a") == "life-a: paused\n"
    assert service.done("pause", "life-a") == "life-a: paused, as it was\n"
    assert "life-a  paused  " in service.done("list", "life-", "--status", "paused")
    there = "life-a: was there already, and is paused: broker resume life-a\n"
    assert service.done("subscribe", path) == there
    assert "no subscriptions like that" in service.done("list", "life-", "--status", "active")
    resumed = service.done("resume", "life-a")
    assert "life-a: active; it counts from document " in resumed
    assert "on, like a new one; no document has passed it by" in resumed
    assert service.done("resume", "life-a") == "life-a: active, as it was\n"

    path.write_text("life-a: SELECT t FROM LifeA//post[./title->t];\n")
    assert "life-a: has changed: it starts anew" in service.done("subscribe", path)
    (told,) = [
        json.loads(x) for x in service.done("list", "life-", "--format", "jsonl").split("\n") if x
    ]
    assert "LifeA//post" in told["text"]
    assert told["atom_url"].startswith("http://127.0.0.1:")

    done = service.broker("unsubscribe", "life-a", "life-none")
    assert done.returncode == 1
    assert "life-a: unsubscribed" in done.stderr
    assert "life-none: " in done.stderr
    assert "1 of 2 failed" in done.stderr
    done = service.broker("pause", "life-a")
    assert (done.returncode, "life-a" in done.stderr) == (1, True)


def test_an_unknown_id_with_which_others_begin(service: Serving, tmp_path: Path) -> None:
    service.done("subscribe", queries(tmp_path, "hint-a: S//a;\nhint-b: S//b;\n"))
    for command in ("pause", "resume", "unsubscribe"):
        done = service.broker(command, "hint-")
        assert done.returncode == 1
        assert "'hint-'; 2 ids begin so: --prefix hint-" in done.stderr
    service.done("pause", "--prefix", "hint-")
    listed = service.broker("list", "hint-")
    assert (listed.stdout.count("paused"), listed.stderr) == (2, ""), "in its column, not again"
    refused = service.broker("unsubscribe", "--prefix", "")
    assert (refused.returncode, "add --yes" in refused.stderr) == (2, True)
    service.done("unsubscribe", "--prefix", "hint-")


def test_what_it_would_have_matched_and_history(service: Serving, tmp_path: Path) -> None:
    # It keeps the documents: what no window reaches is not stored.
    text = "hist-keep: SELECT t FROM Hist//book[./title->t] FOLLOWED BY {t = u, 7 days} Hist//book[./title->u];\n"
    keep = queries(tmp_path, text, "keep.xscl")
    now = int(time.time())
    service.done("subscribe", keep)
    service.done("publish", "Hist", "-", stdin=f"{book('old', now)}\n{book('old', now + 1)}\n")
    service.matched("hist-keep", 1)
    path = queries(tmp_path, "hist-b: SELECT t FROM Hist//book[./title->t];\n")
    done = service.broker("subscribe", path, "--dry-run", "--backfill", "INFINITY")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert {json.loads(line)["query"] for line in done.stdout.splitlines()} == {"hist-b"}
    assert done.stderr.endswith("2 matches; nothing was added\n")
    assert "no subscriptions" in service.done("list", "hist-b")
    said = service.done("subscribe", path, "--backfill", "7 days")
    assert "history: " in said
    assert "2 matches" in said
    assert len(service.matched("hist-b", 2)) == 2


def test_throttles_and_limits(service: Serving, tmp_path: Path) -> None:
    path = queries(tmp_path, "thr: SELECT t FROM Thr//book[./title->t];\n")
    said = service.done("subscribe", path, "--throttle", "t:1 h", "--limit", "3:1 h")
    assert said.endswith(" on; throttle one per t and 1 h; limit 3 per 1 h\n")
    (told,) = [json.loads(service.done("list", "thr", "--format", "jsonl"))]
    assert told["throttle"]["variable"] == "t"
    assert told["throttle"]["period"] == "1 h"
    assert told["limit"] == {"matches": 3, "period": "1 h"}
    service.done("publish", "Thr", "-", stdin="\n".join(map(book, "aab")))
    assert [m["values"] for m in service.matched("thr", 2)] == [{"t": ["a"]}, {"t": ["b"]}]
    service.done("publish", "Thr", "-", stdin="\n".join(map(book, "cdef")))
    service.until("/v1/subscriptions/thr", lambda told: told["status"] == "suspended")
    assert "thr: suspended: " in service.done("list", "thr")
    assert "suspended: thr" in service.done("status")
    (event,) = map(json.loads, service.done("events", "--format", "jsonl").splitlines())
    assert (event["kind"], event["subscription"]) == ("subscription.suspended", "thr")
    listed = service.done("events")
    assert event["text"] in listed
    assert f" subscription.suspended  thr  {event['text']}" in listed
    assert service.broker("events", "--after", event["number"]).stdout == ""
    assert "thr: active" in service.done("resume", "thr")
    said = service.done("subscribe", path, "--throttle", "t:1 h", "--limit", "5:1 h")
    assert said == (
        "thr: was there already, and goes on; throttle unchanged: one per t and 1 h; "
        "limit 3 per 1 h -> 5 per 1 h\n"
    )
    said = service.done("subscribe", path, "--throttle", "2 h")
    assert "throttle one per t and 1 h -> one per 2 h; limit unchanged: 5 per 1 h\n" in said
    path.write_text("thr: SELECT t FROM Thr//post[./title->t];\n")
    said = service.done("subscribe", path)
    assert "has changed: it starts anew" in said
    assert said.endswith("; throttle unchanged: one per 2 h; limit 5 per 1 h -> none\n")
    said = service.done("subscribe", path, "--throttle", "none", "--limit", "none")
    assert said.endswith("and goes on; throttle one per 2 h -> none\n")
    for wrong in (("--throttle", "t:soon"), ("--limit", "1 h"), ("--limit", "0:1 h")):
        assert service.broker("subscribe", path, *wrong).returncode == 2


def test_a_long_file_is_sent_in_parts(service: Serving, tmp_path: Path) -> None:
    names = "".join(
        f"long-{n}: SELECT t FROM Long//x{n}[./title->t] WITHIN week;\n" for n in range(60)
    )
    filler = "".join(f"-- {'x' * 100}\n" for _ in range(9_500))
    path = queries(tmp_path, f"LET week = 7 days;\n{names}{filler}")
    assert path.stat().st_size > 900_000
    assert service.done("subscribe", path) == "60 queries: 60 new\n"


# -- given up --------------------------------------------------------------------------------


def test_an_empty_file_holds_up_none_of_the_others(service: Serving, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.xml", "empty.xml", "b.xml")]
    for file in files:
        file.write_text("" if file.stem == "empty" else f"<{file.stem}/>")
    done = service.broker("publish", "Empty", *files)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"{files[1]}: empty, so there is no document to publish",
        "2 documents accepted",
    ]


def test_documents_that_were_kept_aside(service: Serving) -> None:
    service.done("publish", "Aside", "-", stdin='{"xml": "<book>", "id": "torn"}')
    service.until("/v1/dead-letters", lambda letters: any(x["id"] == "torn" for x in letters))
    shown = service.broker("deadletters", "list", "documents", "--format", "jsonl").stdout
    (letter,) = [x for x in map(json.loads, shown.splitlines()) if x["id"] == "torn"]
    assert letter["xml"] == "<book>"
    listed = service.done("deadletters", "list")
    assert "not well-formed" in listed
    assert letter["at"][:16] in listed, "when it was kept aside, whatever its own time"
    none = service.broker("deadletters", "drop", "documents", 10**9)
    assert (none.returncode, none.stdout) == (1, "")
    assert "no documents were given up under 1000000000" in none.stderr
    assert service.done("deadletters", "resend", "documents", letter["number"]) == (
        "sent again: 1 document\n"
    )
    done = service.broker("deadletters", "resend", "documents", 10**9)
    assert done.returncode == 1
    again = service.until(
        "/v1/dead-letters",
        lambda letters: any(x["id"] == "torn" and x["number"] > letter["number"] for x in letters),
    )
    assert service.done("deadletters", "drop", "documents", again[-1]["number"]) == (
        "dropped: 1 document\n"
    )
    for wrong in (
        ("resend", "documents"),
        ("drop", "documents", "1", "--all"),
        ("list", "--channel", "x"),
    ):
        assert service.broker("deadletters", *wrong).returncode == 2


def test_deliveries_that_were_given_up(tmp_path: Path) -> None:
    answers = {"status": 500}
    path = queries(tmp_path, "q: SELECT t FROM S//book[./title->t];\n")
    with (
        answering(lambda _: (answers["status"], {}, b"")) as (url, asked),
        serving(tmp_path / "state", delivery__schedule='["10 ms"]') as service,
    ):
        service.done("subscribe", path, "--webhook", url)
        service.done("publish", "S", "-", stdin="\n".join(map(book, "ab")))
        service.until("/v1/deliveries/dead", lambda dead: len(dead) == 2)
        shown = service.broker("deadletters", "list", "deliveries", "--format", "jsonl").stdout
        dead = shown.splitlines()
        assert {json.loads(line)["channel"] for line in dead} == {"q.webhook"}
        assert service.done("deadletters", "list").count("q.webhook") == 2
        assert "2 deliveries given up" in service.done("status")
        none = service.broker("deadletters", "resend", "deliveries", 99)
        assert (none.returncode, none.stdout) == (1, "")
        number = json.loads(dead[0])["number"]
        assert service.done("deadletters", "drop", "deliveries", number) == "dropped: 1 delivery\n"
        answers["status"] = 204
        before = len(asked)
        said = service.done("deadletters", "resend", "deliveries", "--channel", "q.webhook")
        assert said == "sent again: 1 delivery\n"
        service.until("/v1/deliveries/dead", lambda dead: not dead)
        service.until("/v1/channels/q.webhook", lambda told: told["delivered"] == 1)
        assert len(asked) == before + 1
        assert service.broker("deadletters", "list", "deliveries", "--format", "jsonl").stdout == ""


# -- status ----------------------------------------------------------------------------------


def test_status_tells_what_matters(service: Serving) -> None:
    done = service.broker("status")
    assert done.returncode == 0
    shown = {line.split("  ")[0] for line in done.stdout.splitlines() if line[:1].strip()}
    assert {
        "service",
        "documents",
        "pipeline",
        "subscriptions",
        "matches",
        "channels",
        "disk",
    } <= shown
    assert "running at http://127.0.0.1:" in done.stdout
    told = json.loads(service.broker("status", "--json").stdout)
    assert told["ready"] is True


def test_status_of_a_service_that_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path / "state", intake__min_free="1000 TB") as service:
        done = service.broker("status")
        assert done.returncode == 1
        assert "not ready" in done.stdout
        assert "free" in done.stdout
