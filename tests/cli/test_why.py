"""`broker why`: of a service, of a state directory on which none runs, and of documents."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.cli.serving import Serving, queries, run, serving

TEXT = (
    "pair: S//book[./title->t] FOLLOWED BY {t = u, 2 days} S//blog[./title->u];"
    " odd: S//book[./titel];"
)
DAY = 86_400


def _line(id: str, name: str, title: str, days: float) -> str:
    xml = f"<{name}><title>{title}</title></{name}>"
    return json.dumps({"id": id, "xml": xml, "timestamp": 1_790_000_000 + days * DAY})


LINES = "\n".join(
    [_line("b1", "book", "Tide", 0), _line("b2", "book", "Road", 1), _line("g1", "blog", "Tide", 5)]
)
APART = "pair: 1 pair has t = u but is too far apart: the closest are 5 days apart, and the window"


def test_of_a_service_and_of_its_state_when_it_is_gone(tmp_path: Path) -> None:
    path = queries(tmp_path, TEXT)
    state = tmp_path / "state"
    with serving(state) as running:
        running.done("subscribe", path)
        running.done("publish", "S", "-", stdin=LINES)
        _asks(running, path)
        _asks_the_api(running)
        assert running.signal(signal.SIGTERM) == 0
    asked = run("why", "pair", "--state", state)
    assert asked.stdout.startswith(APART), asked.stderr
    asked = run("why", "nothing", "--state", state)
    assert asked.returncode == 1
    assert "there is no subscription nothing, and no file of that name; there are: odd, pair" in (
        asked.stderr
    )


def _asks(running: Serving, path: Path) -> None:
    running.until("/v1/subscriptions/pair/why", lambda told: told[0]["documents"] == 3)
    told = running.done("why", "pair")
    assert told.startswith(APART)
    assert "  A  S//book[./title->t]  2 of 3 documents passed\n" in told
    assert "       near: b1 and g1, 5 days apart (t = u: Tide)\n" in told
    assert "odd: none of 2 documents of S with //book has ./titel: write ./title" in (
        running.done("why", path)
    )
    between = running.done("why", "pair", "--document", "b1", "--document", "g1")
    assert "  b1 and g1 do not go together\n    yes  t = u  (Tide)\n" in between
    assert "    NO   within 2 days  (5 days apart)\n" in between
    assert "         t is /book/title: Tide\n" in between
    assert between == running.done("why", path, "--document", "b1", "--document", "g1").replace(
        _part(running, path), ""
    )
    assert "no stored document is called zz" in (
        running.broker("why", "pair", "--document", "zz").stderr
    )
    assert running.broker("why", "zz").returncode == 1


def _part(running: Serving, path: Path) -> str:
    """What is told about the second query of the file."""
    only = queries(path.parent, TEXT.partition(";")[2], "odd.xscl")
    return running.done("why", only, "--document", "b1", "--document", "g1")


def _asks_the_api(running: Serving) -> None:
    (told,) = running.api.get("/v1/subscriptions/pair/why").json()
    assert told["kind"] == "query"
    assert [(each["block"], each["passed"]) for each in told["blocks"]] == [
        ("S//book[./title->t]", 2),
        ("S//blog[./title->u]", 1),
    ]
    (join,) = told["joins"]
    assert (join["agree"], join["ordered"], join["within"], join["window"]) == (1, 1, 0, "2 days")
    assert told["whole"]["counted"] == 0
    (less,) = running.api.get("/v1/subscriptions/pair/why?documents_at_most=1").json()
    assert (less["documents"], less["stored"]) == (1, 3)
    assert "looked at the newest 1 of 3 stored documents" in less["lines"][1]
    wrong = running.api.post("/v1/why", json={"text": "S//"})
    assert wrong.status_code == 422


def test_of_documents_and_what_run_says_at_its_end(tmp_path: Path) -> None:
    path = queries(tmp_path, TEXT.partition(";")[0])
    lines = tmp_path / "lines.jsonl"
    lines.write_text(LINES)
    asked = run("why", path, "--documents", lines)
    assert asked.stdout.startswith(APART), asked.stderr
    ended = run("run", path, "--documents", lines, "--once", "--pipeline", "local")
    assert f"this tells why: broker why {path} --documents {lines}" in ended.stderr
    asked = run("why", "pair", "--state", tmp_path / "none")
    assert asked.returncode == 1
    assert "there is no state" in asked.stderr


def test_what_run_says_at_its_end_asks_about_the_same_documents(tmp_path: Path) -> None:
    path = queries(tmp_path, "q: T/a[./k->k] FOLLOWED BY {k = l, 1 h} T/a[./k->l]")
    feed = tmp_path / "feed.xml"
    days = "".join(f"<a><k>1</k><date>2026-10-0{n}</date></a>" for n in (5, 7))
    feed.write_text(f"<feed>{days}</feed>")
    options = ("--documents", feed, "--timestamp", "//date", "--split", "a", "--stream", "T")
    ended = run("run", path, *options, "--once", "--pipeline", "local")
    asks = ended.stderr.partition("this tells why: broker ")[2].splitlines()[0]
    assert asks == " ".join(map(str, ("why", path, *options)))
    asked = run(*asks.split())
    assert "1 pair has k = l but is too far apart" in asked.stdout, asked.stdout


def test_what_is_wrong_in_a_file_is_told_with_its_name(tmp_path: Path) -> None:
    asked = run("why", queries(tmp_path, "hello\n"), "--state", tmp_path / "none")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert f"{tmp_path / 'q.xscl'}:1:6" in asked.stderr
    explained = run("explain", queries(tmp_path, ""))
    assert explained.returncode == 2
    assert explained.stderr == "broker: the query files hold no query\n"
