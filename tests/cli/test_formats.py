"""`--format csv` and `--format table` for matches and lists."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from broker.cli.output import Output
from broker.cli.remote import listing
from broker.cli.tables import csv_table, table
from broker.model import DocumentRef, Match
from broker.text.columns import MATCH_COLUMNS, csv_line, csv_match, table_match
from tests.cli.serving import Serving, queries, run
from tests.cli.terminal import typed
from tests.docs.test_terminal import SAMPLES

MATCH = Match(
    id="m1",
    query="q",
    stream=None,
    start_us=0,
    end_us=1_500_000,
    documents=(
        DocumentRef("d1", "S", 0, title='=HYPERLINK("x")', link="http://a.example/1", feed="A, B"),
        DocumentRef("d2", "S", 1_500_000, title='He said "no"\x1b[2J\nand went'),
    ),
    values={"t": ["-1", "b"], "u": ["c"]},
    nodes=(1, 2),
    result="<result/>",
)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_match_is_one_row_that_a_spreadsheet_reads_as_text() -> None:
    line = csv_match(MATCH)
    assert line.isprintable()
    (row,) = csv.reader([line])
    assert dict(zip(MATCH_COLUMNS, row, strict=True)) == {
        "query": "q",
        "start": "1970-01-01T00:00:00Z",
        "end": "1970-01-01T00:00:01.5Z",
        "titles": '\'=HYPERLINK("x") | He said "no"\\x1b[2J\\nand went',
        "links": "http://a.example/1 | ",
        "feeds": "A, B | ",
        "documents": "d1 | d2",
        "values": "t = -1, b; u = c",
        "id": "m1",
    }


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@a", "'@a"),
        ("\t=1", "'\\t=1"),
        (-1, "-1"),
        (None, ""),
        (True, "true"),
        ('a"b', '"a""b"'),
        (["a", 1], '"[""a"", 1]"'),
    ],
)
def test_cells(cell: object, written: str) -> None:
    assert csv_line(["x", cell]) == f"x,{written}"


def test_a_list_of_very_many_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    csv_table(("n", "gaps"), ({"n": n, "gaps": ["ü"] * (n % 2)} for n in range(2_500)))
    written = capsys.readouterr().out
    assert written.endswith("\n")
    assert [row["n"] for row in rows(written)] == [str(n) for n in range(2_500)]
    assert {row["gaps"] for row in rows(written)} == {"[]", '["ü"]'}
    table(("N", "WHAT"), ((n, None) for n in range(2_500)))
    assert capsys.readouterr().out.splitlines()[-1] == "2,499"


def test_a_line_of_a_table_has_no_control_characters() -> None:
    assert table_match(MATCH).isprintable()


def test_a_file_has_its_header_once(tmp_path: Path) -> None:
    path = tmp_path / "matches.csv"
    for _ in range(2):
        output = Output(str(path), "csv")
        output.write([MATCH])
        output.close()
    assert [row["id"] for row in rows(path.read_text())] == ["m1", "m1"]


@pytest.fixture(scope="module")
def said(service: Serving, tmp_path_factory: pytest.TempPathFactory) -> Serving:
    place = tmp_path_factory.mktemp("formats")
    service.done("subscribe", queries(place, "fm-a: form//a->x;\nfm-b: form//b  -- two\n"))
    service.done("channels", "add", "fm", "--subscription", "fm-a", "--pull")
    service.done("feeds", "add", "http://127.0.0.1:9/fm", "--allow-private")
    service.done("publish", "form", "-", stdin='{"id": "x", "xml": "<a><title>T</title></a>"}\n')
    return service


def test_lists_as_csv_have_what_json_has(said: Serving) -> None:
    for command, key in ((("list", "fm-"), "id"), (("channels", "list"), "name")):
        output = rows(said.broker(*command, "--format", "csv").stdout)
        lines = said.broker(*command, "--format", "jsonl").stdout.splitlines()
        assert [row[key] for row in output] == [json.loads(line)[key] for line in lines]
    (feed,) = rows(said.broker("feeds", "list", "--format", "csv").stdout)
    assert feed["url"] == "http://127.0.0.1:9/fm"
    assert "number" in said.broker("events", "--format", "csv").stdout
    assert "number" in said.broker("deadletters", "list", "documents", "--format", "csv").stdout
    both = said.broker("deadletters", "list", "--format", "csv")
    assert (both.returncode, "of one kind" in both.stderr) == (2, True)


def test_text_and_table_are_one(said: Serving) -> None:
    output = said.broker("list", "fm-", "--format", "table")
    assert output.stdout == said.broker("list", "fm-").stdout


def test_matches_of_a_service(said: Serving) -> None:
    (row,) = rows(said.broker("matches", "fm-a", "--format", "csv").stdout)
    assert (row["query"], row["titles"]) == ("fm-a", "T")
    header, line = said.broker("matches", "fm-a", "--format", "table").stdout.splitlines()
    assert header.split() == ["END", "QUERY", "DOCUMENTS"]
    assert line.split()[1:] == ["fm-a", "T"]


def test_a_table_fits_the_terminal(tmp_path: Path) -> None:
    """And CSV is whole there as well."""
    archive = tmp_path / "archive" / "f"
    archive.mkdir(parents=True)
    shown = archive / "20261005T100000Z_x.xml"
    shown.write_bytes((SAMPLES / "gannet.rss").read_bytes())
    file = queries(tmp_path, "all: S//item[./title]")
    line = f"replay {archive.parent} {file} --lateness INFINITY --format table"
    ended = typed(line.split(), columns=60)
    assert ended.code == 0
    assert ended.lines[0].split()[0] == "END"
    assert all(len(each) <= 60 for each in ended.lines)
    assert any(each.endswith("…") for each in ended.lines)
    output = run("replay", archive.parent, file, "--lateness", "INFINITY", "--format", "csv")
    assert {row["query"] for row in rows(output.stdout)} == {"all"}


def test_of_very_many_reasons_the_first_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": f"q{n}", "status": "suspended", "reason": "its join failed", "since": None}
        | {"first_doc": 0, "gaps": [], "text": "S//a"}
        for n in range(60)
    ]
    listing._show("", None, rows)
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 61
    reasons = shown.err.splitlines()
    assert reasons[0] == "q0: suspended: its join failed"
    assert reasons[50].startswith("and 10 subscriptions more that see no documents")
    assert len(reasons) == 51
