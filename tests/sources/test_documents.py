"""From files and lines to rows, without Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from broker.sources.documents import (
    SOURCED,
    JsonLine,
    XmlFiles,
    encode_xml,
    json_object,
    json_row,
    microseconds,
    record_batch,
    record_batches,
    relative_name,
    timestamp_reader,
    xml_rows,
)
from broker.spark.xml_files import xml_batches
from feeds.rows import DocumentRow
from xscl.stage1.document import parse_document

SECOND = 1_000_000
MODIFIED = 5 * SECOND


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (12, 12 * SECOND),
        (1.5, 1_500_000),
        ("1700000000.25", 1_700_000_000_250_000),
        ("2024-02-29T12:00:00Z", 1_709_208_000 * SECOND),
        (" Thu, 29 Feb 2024 13:00:00 +0100 ", 1_709_208_000 * SECOND),
        ("1970", 1_970 * SECOND),
        ("20240229", 20_240_229 * SECOND),
        ("99999999999", 99_999_999_999 * SECOND),
        ("253402300799", 253_402_300_799 * SECOND),
        ("253402300800", None),
        ("000000000012", 12 * SECOND),
        ("٣", 3 * SECOND),
        ("1970-01-02", 86_400 * SECOND),
        ("yesterday", None),
        ("", None),
        (True, None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (1e30, None),
        (1e305, None),
        ("-" + "9" * 305, None),
        ("9" * 400, None),
        (10**400, None),
        (["2024"], None),
    ],
)
def test_a_time_is_a_date_or_a_number_of_seconds(value: object, expected: int | None) -> None:
    assert microseconds(value) == expected


@pytest.mark.parametrize(
    ("xpath", "expected"),
    [
        ("//updated", 3 * SECOND),
        ("/*/meta/@stamp", 4 * SECOND),
        ("number(//updated) + 10", 13 * SECOND),
        ("string(//meta/@stamp)", 4 * SECOND),
        ("//nothing", None),
        ("//title", None),
        ("//updated = 3", None),
        ("//a[@href='x:y']", None),
    ],
)
def test_a_timestamp_path_ignores_namespaces(xpath: str, expected: int | None) -> None:
    root = parse_document(
        b"<f:e xmlns:f='urn:f' xmlns='urn:d'><updated>3</updated><meta stamp='4'/>"
        b"<title>Ropes</title></f:e>"
    )
    assert timestamp_reader(xpath)(root) == expected


@pytest.mark.parametrize("xpath", ["//[", "//dc:date", "frob(", "frob()", "//a[$x]"])
def test_a_timestamp_path_that_is_none_is_refused(xpath: str) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        timestamp_reader(xpath)


@pytest.mark.parametrize(
    ("xpath", "meant"),
    [
        ("/*/cbc:IssueDate", "/*/IssueDate"),
        ("//dc:date[../@x = 'a:b']", "//date[../@x = 'a:b']"),
        ("/rdf:RDF/child::item/dc:date", "/RDF/child::item/date"),
    ],
)
def test_a_timestamp_path_with_prefixes_is_said_without(xpath: str, meant: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"in any namespace: {meant}") + "$"):
        timestamp_reader(xpath)
    timestamp_reader(meant)


def files(**options: Any) -> XmlFiles:
    return XmlFiles("/data/in", "/data/in", ("S",), **options)


def rows(content: bytes, **options: Any) -> list[DocumentRow]:
    return list(xml_rows(files(**options), "/data/in/a/b.xml", MODIFIED, content))


def test_a_file_is_a_document_named_by_its_path() -> None:
    (row,) = rows(b"<a/>")
    assert (row.id, row.source, row.streams) == ("a/b.xml", "/data/in", ("S",))
    assert (row.timestamp, row.dated, row.error) == (MODIFIED, False, None)
    assert row.xml == b"<a/>"
    assert row.place == "/data/in/a/b.xml"


def test_a_document_has_its_own_date_where_it_says_one() -> None:
    (dated,) = rows(b"<a><date>7</date></a>", timestamp="//date")
    assert (dated.timestamp, dated.dated) == (7 * SECOND, True)
    (undated,) = rows(b"<a/>", timestamp="//date")
    assert (undated.timestamp, undated.dated) == (MODIFIED, False)


def test_a_file_is_split_into_documents_that_stand_alone() -> None:
    content = (
        b"<?xml version='1.0' encoding='iso-8859-1'?>\n"
        b"<!DOCTYPE r [<!ENTITY who 'Ann'>]>"
        b"<r xmlns='urn:d' xmlns:m='urn:m'><item><date>1</date><m:by>&who; \xe9</m:by></item>tail"
        b"<deep><item><date>2</date><item/></item></deep></r>"
    )
    first, second, third = rows(content, split="item", timestamp="./date")
    assert [row.id for row in (first, second, third)] == [f"a/b.xml#{n}" for n in (1, 2, 3)]
    assert [row.place for row in (first, second)] == [
        "/data/in/a/b.xml#1",
        "/data/in/a/b.xml#2",
    ]
    assert [row.timestamp for row in (first, second, third)] == [SECOND, 2 * SECOND, MODIFIED]
    root = parse_document(first.xml)
    assert root.tag == "{urn:d}item"
    assert root.findtext("{urn:m}by") == "Ann é"
    assert b"tail" not in first.xml
    assert first.order < second.order < third.order


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<a><b></a>", "not well-formed"),
        (b"", ""),
        (b"\x00\xff", ""),
        (b"<a/>", "no element 'item' to split on"),
        (
            b"<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/hostname'>]><a>&e;</a>",
            "",
        ),
        (
            b"<!DOCTYPE a [<!ENTITY a0 'ha'>"
            + b"".join(b"<!ENTITY a%d '%s'>" % (i, b"&a%d;" % (i - 1) * 10) for i in range(1, 12))
            + b"]><a>&a11;</a>",
            "",
        ),
    ],
)
def test_what_cannot_be_split_is_one_row_with_the_reason(content: bytes, why: str) -> None:
    (row,) = rows(content, split="item")
    assert row.error
    assert why in row.error
    assert row.xml == content
    assert (row.id, row.place) == ("a/b.xml", "/data/in/a/b.xml")


def test_a_file_that_cannot_be_read_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "large.xml").write_bytes(b"<a>" + b" " * 20 + b"</a>")
    (tmp_path / "fine.xml").write_bytes(b"<a/>")
    (tmp_path / "folder.xml").mkdir()
    names = ["gone.xml", "large.xml", "folder.xml", "fine.xml"]
    listed = pa.RecordBatch.from_pydict(
        {
            "path": [f"file:{tmp_path}/{name}" for name in names],
            "modified": [1, 2, 3, 4],
            "content": pa.nulls(4, pa.binary()),
        }
    )
    options = XmlFiles(str(tmp_path), "x", ("S", "T"), max_bytes=10)
    (batch,) = xml_batches(options, iter([listed]))
    assert batch.schema == SOURCED
    found = {row["id"]: row["error"] for row in batch.to_pylist()}
    assert list(found) == names
    assert "No such file" in found["gone.xml"]
    assert "larger than" in found["large.xml"]
    assert found["folder.xml"]
    assert found["fine.xml"] is None


def test_content_that_spark_read_is_used() -> None:
    listed = pa.RecordBatch.from_pydict(
        {"path": ["hdfs://node/in/a.xml"], "modified": [1], "content": [b"<a/>"]}
    )
    (batch,) = xml_batches(XmlFiles("hdfs://node/in", "x", ("S",)), iter([listed]))
    (row,) = batch.to_pylist()
    assert (row["id"], row["xml"], row["error"]) == ("a.xml", b"<a/>", None)


@pytest.mark.parametrize(
    ("root", "path", "name"),
    [
        ("/in", "/in/a.xml", "a.xml"),
        ("/in/", "/in/x/a.xml", "x/a.xml"),
        ("/in/a.xml", "/in/a.xml", "a.xml"),
        ("/in", "/inside/a.xml", "a.xml"),
    ],
)
def test_names_are_relative(root: str, path: str, name: str) -> None:
    assert relative_name(root, path) == name


AT = JsonLine("/data/in.jsonl", 3, MODIFIED)


def test_a_line_is_a_document() -> None:
    line = {
        "id": "d",
        "stream": ["A", "B", "A"],
        "timestamp": "1970-01-01T00:00:09Z",
        "xml": "<é/>",
    }
    row = json_row(json.dumps(line).encode(), AT)
    assert row is not None
    assert (row.source, row.id, row.streams) == ("A", "d", ("A", "B"))
    assert (row.timestamp, row.dated, row.error) == (9 * SECOND, True, None)
    assert row.xml == "<é/>".encode()
    assert row.place == "/data/in.jsonl:3"


def test_a_line_may_leave_out_all_but_id_and_xml() -> None:
    row = json_row(b'\xef\xbb\xbf{"id": "d", "xml": "<a/>", "source": null, "more": 1}', AT)
    assert row is not None
    assert (row.source, row.streams, row.timestamp, row.dated) == ("S", ("S",), MODIFIED, False)
    named = json_row(b'{"id": "d", "xml": "<a/>", "stream": "T", "source": "shop"}', AT)
    assert named is not None
    assert (named.source, named.streams) == ("shop", ("T",))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"id": "d", "xml": "<a/>"', "not JSON"),
        (b"not json", "not JSON"),
        (b"\xff\xfe", "not UTF-8 at byte 1"),
        (b"[" * 200_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"xml": "<a/>"}', '"id" is missing'),
        (b'{"id": 7, "xml": "<a/>"}', '"id" is not a text'),
        (b'{"id": "", "xml": "<a/>"}', '"id" is not a text'),
        (b'{"id": "d"}', '"xml" is missing'),
        (b'{"id": "d", "xml": {}}', '"xml" is not a text'),
        (b'{"id": "d", "xml": "<a/>", "stream": []}', '"stream"'),
        (b'{"id": "d", "xml": "<a/>", "stream": ["A", 1]}', '"stream"'),
        (b'{"id": "d", "xml": "<a/>", "timestamp": "soon"}', '"timestamp"'),
        (b'{"id": "d", "xml": "<a/>", "timestamp": NaN}', '"timestamp"'),
        (b'{"id": "d", "xml": "<a/>", "timestamp": true}', '"timestamp"'),
        (b'{"id": "d", "xml": "<a/>", "source": 1}', '"source"'),
        (b'{"id": "\\ud800", "xml": "<a/>"}', "surrogate"),
        (b'{"id": "d", "xml": "<a>\\udfff</a>"}', "surrogate"),
        (b'{"id": "d", "timestamp": %s, "xml": "<a/>"}' % (b"9" * 5_000), ""),
    ],
)
def test_a_bad_line_is_kept_with_its_place_and_the_reason(line: bytes, why: str) -> None:
    row = json_row(line, AT)
    assert row is not None
    assert row.error
    assert why in row.error
    assert row.xml == line
    assert row.place == "/data/in.jsonl:3"
    assert record_batch([row]).num_rows == 1


def test_a_blank_line_is_nothing() -> None:
    assert json_row(b"  \r", AT) is None


def test_a_text_loses_its_declaration_but_not_its_lines() -> None:
    declared = '\ufeff<?xml version="1.0"\n encoding="iso-8859-1"?>\n<a>é</a>'
    assert encode_xml(declared) == "\n\n<a>é</a>".encode()
    assert parse_document(encode_xml(declared)).text == "é"
    assert encode_xml("<?xml-model a?><a/>") == b"<?xml-model a?><a/>"
    assert parse_document(encode_xml("<a/>")).tag == "a"


def test_batches_are_bounded() -> None:
    (small,) = rows(b"<a/>")
    (large,) = rows(b"<a>" + b" " * 200 + b"</a>")
    batches = record_batches([small] * 7 + [large] * 2, count=3, about=100)
    sizes = [batch.num_rows for batch in batches]
    assert sizes == [3, 3, 2, 1]


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "1", "id": "2"}',
        '\ufeff {"xml": "<a>\\u00e9 \\ud83d\\ude00</a>", "timestamp": 1792834800.123456}',
        '{"id": "\\ud800", "timestamp": 123456789012345678901234567890}',
        '{"a": [1e400, -Infinity, -0.0, 1E5, true, null, {}], "": "\\u0000"}',
        '{"a": 1.00000000000000022, "b": 2.2250738585072011e-308}',
    ],
)
def test_a_line_has_the_values_that_json_says(line: str) -> None:
    found = json_object(line.encode(), "")
    assert repr(found) == repr(json.loads(line.removeprefix("\ufeff")))
