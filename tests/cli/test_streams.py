"""`broker streams`, and what other commands say about paths that no document of a stream has."""

from __future__ import annotations

import json
from pathlib import Path

from broker import Broker, Document
from tests.cli.serving import Serving, book, queries, run


def state_with_documents(state: Path) -> Path:
    with Broker(state) as broker:
        broker.process(
            Document(str(n), "S", n, f"<book isbn='{n}'><title>T{n % 2}</title></book>")
            for n in range(4)
        )
    return state


def test_the_streams_of_a_state_are_shown_without_a_service(tmp_path: Path) -> None:
    state = state_with_documents(tmp_path / "state")
    done = run("streams", "--state", state)
    assert done.stdout.splitlines() == [
        "stream  documents  since                 until",
        "S       4          1970-01-01T00:00:00Z  1970-01-01T00:00:03Z",
    ]
    done = run("streams", "S", "--state", state)
    assert [line.split() for line in done.stdout.splitlines()[2:]] == [
        ["/book", "4", "1"],
        ["/book/@isbn", "4", "1", "4", "'0',", "'1',", "'2'"],
        ["/book/title", "4", "1", "2", "'T0'", "(2),", "'T1'", "(2)"],
    ]
    done = run("streams", "S", "--state", state, "--format", "csv")
    assert "/book/title,4,true,1.0,2" in done.stdout
    done = run("streams", "T", "--state", state)
    assert (done.returncode, done.stderr) == (
        1,
        "broker: no document of T is stored; there are: S\n",
    )
    done = run("streams", "--state", tmp_path)
    assert done.returncode == 1
    assert "no service runs on" in done.stderr


def test_check_says_what_no_document_of_a_state_has(tmp_path: Path) -> None:
    state = state_with_documents(tmp_path / "state")
    file = queries(tmp_path, "q: S//book[./titel->t][./@isbn][@year]; r: T//book[./titel]")
    done = run("check", file, "--state", state)
    assert done.returncode == 0
    assert done.stderr.count("warning[unknown-path]") == 2
    assert "none of the 4 documents of S has /book/titel" in done.stderr
    assert "did you mean title? there are: title; known since 1970-01-01T00:00:00Z" in done.stderr
    assert "none of the 4 documents of S has /book/@year" in done.stderr
    assert "warning" not in run("check", file).stderr


def test_suggested_queries_can_be_subscribed_as_they_are(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Broker(state) as broker:
        broker.process(
            Document(f"{kind}{n}", kind, n, f"<{kind} {key}='k{n}'/>")
            for n in range(9)
            for kind, key in (("order", "id"), ("payment", "order"))
        )
    done = run("suggest", "order", "payment", "--state", state)
    first, *query = done.stdout.splitlines()
    assert first == (
        "-- order /order/@id = payment /payment/@order: 9 values in common, 9 matches with 18 of"
        " 18 documents"
    )
    file = queries(tmp_path, "\n".join(query))
    assert "1 query, no errors" in run("check", file).stderr
    done = run("suggest", "--document", "payment3", "--state", state)
    first, *lines = done.stdout.splitlines()
    assert first == "-- payment /payment/@order = order /order/@id: joins it with order3"
    assert "1 query, no errors" in run("check", queries(tmp_path, "\n".join(lines))).stderr
    done = run("suggest", "order", "--document", "payment3", "--state", state, "--json")
    assert [each["partners"] for each in map(json.loads, done.stdout.splitlines())] == [["order3"]]
    done = run("suggest", "--document", "payment99", "--state", state)
    assert done.stderr == "broker: no stored document is called payment99\n"
    done = run("suggest", "--state", state)
    assert (done.returncode, "--document" in done.stderr) == (2, True)
    done = run("suggest", "ordr", "--state", state)
    assert done.stderr == "broker: no document of ordr is stored; did you mean order?\n"


def test_the_end_of_a_run_says_what_none_of_its_documents_had(tmp_path: Path) -> None:
    file = queries(tmp_path, "q: S//book[./titel->t]")
    documents = tmp_path / "d.jsonl"
    documents.write_text(
        "".join(f'{{"id": "{n}", "xml": "<book><title/></book>"}}\n' for n in "ab")
    )
    done = run("run", file, "--documents", documents, "--once", "--pipeline", "local")
    assert "none of the 2 documents of S has /book/titel" in done.stderr
    assert "did you mean title?" in done.stderr


def test_a_service_shows_its_streams_and_warns_of_what_they_lack(
    tmp_path: Path, service: Serving
) -> None:
    done = service.broker("streams", "shown")
    assert "no document of shown is stored; " in done.stderr
    pair = "shown//book[./title->t] FOLLOWED BY {t = u, 1 day} shown//book[./title->u]"
    service.done("subscribe", queries(tmp_path, f"shown-pair: {pair} PUBLISH shown-pairs"))
    lines = tmp_path / "d.jsonl"
    lines.write_text("".join(f"{book(f't{n}')}\n" for n in range(3)))
    service.done("publish", "shown", lines)
    service.until(
        "/v1/streams",
        lambda found: any((e["name"], e["documents"]) == ("shown", 3) for e in found),
    )
    seen = json.loads(service.done("streams", "shown", "--format", "jsonl"))
    assert [(each["path"], each["documents"]) for each in seen["paths"]] == [
        ("/book", 3),
        ("/book/title", 3),
    ]
    assert service.api.get("/v1/streams/suggestions?stream=shown").json() == []
    assert service.api.get("/v1/streams/suggestions?stream=none").status_code == 404
    assert service.api.get("/v1/streams/suggestions").status_code == 422
    assert service.api.get("/v1/streams/suggestions?document=none").status_code == 404
    done = service.broker("suggest", "--document", seen["name"])
    assert "no stored document is called shown" in done.stderr
    text = "shown-w: shown//book[./titel->t]; shown-p: shown-pairs/result[./a]"
    said = service.done("subscribe", queries(tmp_path, text, "w.xscl"))
    assert said.count("none of the 3 documents of shown has /book/titel") == 1
    assert "what shown-pairs publishes has no a" in said
    assert "shown-w: counts from document" in said
