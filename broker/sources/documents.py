"""From what lies in files to rows of documents.

Pure functions of bytes, names and times, apart from `file_rows`, which opens the file it is given.
In: an XML file (whole, or cut into the elements of one name) or a line of JSON; out: rows of schema
`SOURCED`, which is `feeds.rows.DOCUMENTS` and `ORDER`. What is no document becomes a row with
`error` set and the raw bytes, never an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from lxml import etree
from pydantic_core import from_json

from feeds.rows import DOCUMENTS, DocumentRow, to_batch
from xscl.functions.dates import date
from xscl.stage1.document import DocumentError, parse_document, string_value

MAX_DOCUMENT_BYTES = 128 << 20
"""Larger files and lines are set aside: a row has to fit in memory several times over."""

BATCH_ROWS = 1_000
BATCH_BYTES = 8 << 20

ORDER = "arrival_order"
"""A column for sorting a batch: modification time, file and position in it, so that the order in
which documents are applied does not depend on how files were dealt to tasks."""

SOURCED = DOCUMENTS.append(pa.field(ORDER, pa.string()))

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")
_SECONDS = 11
"""Digits of a number of seconds that the calendar holds, whatever they are."""
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_PREFIX = re.compile(r"[\w.-]+:(?!:)(?=[\w*])")
_DECLARATION = re.compile(r"\ufeff?(<\?xml\s[^>]*\?>)?")


@dataclass(frozen=True, slots=True)
class XmlFiles:
    """How XML files become documents.

    `root`: ids are relative to this path; `timestamp`: an XPath evaluated on each document;
    `split`: the local name of the elements that are documents of their own; `max_bytes`: of a
    file.
    """

    root: str
    source: str
    streams: tuple[str, ...]
    timestamp: str | None = None
    split: str | None = None
    max_bytes: int = MAX_DOCUMENT_BYTES


@dataclass(frozen=True, slots=True)
class JsonLine:
    """Where a line of JSON stands. `modified`: the file's modification time in microseconds."""

    file: str
    number: int
    modified: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}"


# -- times ---------------------------------------------------------------------------------------


def microseconds(value: object) -> int | None:
    """A date as text (ISO 8601, RFC 822) or a number of seconds, as microseconds; None if neither.

    Digits alone are seconds, four or eight of them too: the numbers of one stream pass through
    every length. (A year becomes a date with `concat(//year, '-01-01')`.) What the calendar of
    years 1 to 9999 does not hold is None.
    """
    if isinstance(value, str):
        if len(value) <= _SECONDS and value.isascii() and value.isdigit():
            return int(value) * 1_000_000
        value = float(value) if _NUMBER.fullmatch(value.strip()) else date(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # What is far outside, or no number, is not multiplied: the product might be infinite.
    if not _EARLIEST <= value <= _LATEST:
        return None
    micros = round(value * 1_000_000)
    return micros if _EARLIEST <= micros <= _LATEST else None


def _without_prefixes(xpath: str) -> str:
    """The same expression; what stands in strings stays."""
    pattern = f"({_LITERAL.pattern})|{_PREFIX.pattern}"
    return re.sub(pattern, lambda found: found[1] or "", xpath)


@lru_cache(maxsize=16)
def timestamp_reader(xpath: str) -> Callable[[etree._Element], int | None]:
    """A function from a document to its own date in microseconds, None where it has none.

    Names without a prefix match in any namespace, as in queries. ValueError for what is no XPath
    1.0 expression, or has a prefix or a variable (there is nothing to bind one to).
    """
    bare = _LITERAL.sub("", xpath)
    if "$" in bare or _PREFIX.search(bare):
        raise ValueError(
            f"timestamp {xpath!r}: variables are not known"
            if "$" in bare
            else f"timestamp {xpath!r}: names are written without a prefix, they match in any "
            f"namespace: {_without_prefixes(xpath)}"
        )
    try:
        evaluate = etree.XPath(xpath, smart_strings=False)
        evaluate(etree.Element("probe"))  # finds unknown functions
    except etree.XPathError as error:
        raise ValueError(f"timestamp {xpath!r}: {error}; write for instance //updated") from None

    def read(root: etree._Element) -> int | None:
        _drop_namespaces(root)
        try:
            found: object = evaluate(root)
        except etree.XPathError:
            return None
        if isinstance(found, list):
            first = found[0] if found else None
            if isinstance(first, etree._Element):
                return microseconds(string_value(first))
            found = first
        return microseconds(found)

    return read


def _drop_namespaces(root: etree._Element) -> None:
    for element in root.iter("{*}*"):
        if element.tag[0] == "{":
            element.tag = element.tag.partition("}")[2]


# -- XML files -----------------------------------------------------------------------------------


def xml_rows(files: XmlFiles, path: str, modified: int, content: bytes) -> Iterator[DocumentRow]:
    """The documents of one file. `path` and `files.root` are of one spelling; `modified` in
    microseconds is the time of a document that has no date of its own."""
    name = relative_name(files.root, path)

    def row(position: int, id: str, place: str, xml: bytes, dated: int | None) -> DocumentRow:
        time = modified if dated is None else dated
        order = order_key(modified, path, position)
        return DocumentRow(
            *(files.source, id, files.streams, time, dated is not None, None, False, xml),
            place=place,
            order=order,
        )

    if files.split is None and files.timestamp is None:
        yield row(0, name, path, content, None)  # stage 1 parses it
        return
    try:
        root = parse_document(content)
        if files.split is None:
            yield row(0, name, path, content, _own_date(files, root))
            return
        parts = [
            etree.tostring(element, encoding="utf-8", with_tail=False)
            for element in root.iter(f"{{*}}{files.split}")
        ]
        if not parts:
            raise DocumentError(f"no element {files.split!r} to split on")
        for n, part in enumerate(parts, 1):
            date = _own_date(files, parse_document(part)) if files.timestamp else None
            yield row(n, f"{name}#{n}", f"{path}#{n}", part, date)
    except DocumentError as error:
        yield failed_file(files, path, modified, content, str(error))


def _own_date(files: XmlFiles, root: etree._Element) -> int | None:
    return timestamp_reader(files.timestamp)(root) if files.timestamp else None


def failed_file(
    files: XmlFiles, path: str, modified: int, content: bytes, reason: str
) -> DocumentRow:
    """The row of a file that could not be read as XML."""
    return DocumentRow(
        source=files.source,
        id=relative_name(files.root, path),
        streams=files.streams,
        timestamp=modified,
        dated=False,
        seq=None,
        revision=False,
        xml=content,
        error=reason,
        place=path,
        order=order_key(modified, path, 0),
    )


def relative_name(root: str, path: str) -> str:
    """`path` below `root`, or its last part where `root` is the file itself."""
    base = root.rstrip("/")
    return path[len(base) + 1 :] if path.startswith(f"{base}/") else path.rpartition("/")[2]


def order_key(modified: int, path: str, position: int) -> str:
    return f"{max(modified, 0):018d} {path} {position:09d}"


def file_rows(
    files: XmlFiles, path: str, modified: int, content: bytes | None = None
) -> Iterator[DocumentRow]:
    """The documents of the file at `path`, which is opened unless its content is given; a file that
    cannot be read is a row with an error."""
    try:
        if content is None:
            content = _read(path, files.max_bytes)
        yield from xml_rows(files, path, modified, content)
    except (OSError, DocumentError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        yield failed_file(files, path, modified, b"", f"cannot be read: {reason}")


def existing(path: str | Path) -> Path:
    """The absolute path of a file or directory. Raises FileNotFoundError where there is none."""
    place = Path(str(path).removeprefix("file://")).absolute()
    if not place.exists():
        raise FileNotFoundError(f"{path}: no such file or directory")
    return place


def _read(path: str, most: int) -> bytes:
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise DocumentError(f"larger than {most >> 20} MB")
    return content


# -- JSON lines ----------------------------------------------------------------------------------


def json_row(line: bytes, at: JsonLine) -> DocumentRow | None:
    """The document of a line, a row with an error where it is none, None for a blank line.

    `{"id", "xml"}` are required; `stream` (a string or a list, default "S"), `timestamp` (seconds,
    or ISO 8601; default the file's time) and `source` (default the first stream) are not.
    """
    if not line.strip():
        return None
    id, source = at.place, "S"
    streams: tuple[str, ...] = ("S",)
    try:
        entry = json_object(line, 'not a JSON object with "id" and "xml"')
        streams = _streams(entry.get("stream", "S"))
        source = _text(entry, "source") if entry.get("source") is not None else streams[0]
        id = _text(entry, "id")
        xml = encode_xml(_text(entry, "xml"))
        timestamp = None
        if entry.get("timestamp") is not None:
            timestamp = microseconds(entry["timestamp"])
            if timestamp is None:
                raise DocumentError('"timestamp" is neither a date nor a number of seconds')
        error = None
    except DocumentError as problem:
        xml, timestamp, error = line, None, str(problem)
    return DocumentRow(
        source=source,
        id=id,
        streams=streams,
        timestamp=at.modified if timestamp is None else timestamp,
        dated=timestamp is not None,
        seq=None,
        revision=False,
        xml=xml,
        error=error,
        place=at.place,
        order=order_key(at.modified, at.file, at.number),
    )


def json_object(line: bytes, other: str) -> dict[str, Any]:
    """The object that a line of JSON holds. Raises DocumentError with what is wrong; `other` is
    what it says of JSON that is no object."""
    try:
        # A fifth of the time of the other parser, and the same values. It refuses more, such as a
        # byte order mark or half of a surrogate pair, and does not say where.
        entry = from_json(line)
    except ValueError:
        entry = _json_value(line)
    if not isinstance(entry, dict):
        raise DocumentError(other)
    return entry


def _json_value(line: bytes) -> Any:
    """The value that a line of JSON holds. Raises DocumentError with what is wrong."""
    try:
        return json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise DocumentError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise DocumentError("not JSON: nested too deeply") from None
    except ValueError as error:
        raise DocumentError(f"not JSON: {error}") from None


def _text(entry: dict[str, object], key: str) -> str:
    value = entry.get(key)
    if value is None:
        raise DocumentError(f'"{key}" is missing')
    if not isinstance(value, str) or not value:
        raise DocumentError(f'"{key}" is not a text')
    return _storable(key, value)


def _storable(key: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DocumentError(f'"{key}" holds half of a surrogate pair') from None
    return value


def _streams(value: object) -> tuple[str, ...]:
    names: list[object] = value if isinstance(value, list) else [value]
    found = [_storable("stream", name) for name in names if isinstance(name, str) and name]
    if not found or len(found) < len(names):
        raise DocumentError('"stream" is not a name or a list of names')
    return tuple(dict.fromkeys(found))


def encode_xml(text: str) -> bytes:
    """A text of XML as UTF-8. A declaration goes: what it says of the encoding is no longer
    true."""
    found = _DECLARATION.match(text)
    start = found.end() if found else 0
    # Its lines stay, so that a later error names the line that the author sees.
    return b"\n" * text.count("\n", 0, start) + text[start:].encode()


# -- Arrow ---------------------------------------------------------------------------------------


def record_batches(
    rows: Iterable[DocumentRow], *, count: int = BATCH_ROWS, about: int = BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of schema SOURCED, of at most `count` rows and `about` so many
    bytes."""
    waiting: list[DocumentRow] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row.xml)
        if len(waiting) >= count or size >= about:
            yield record_batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield record_batch(waiting)


def record_batch(rows: Sequence[DocumentRow]) -> pa.RecordBatch:
    """One record batch of schema SOURCED."""
    orders = pa.array([row.order for row in rows], pa.string())
    return pa.RecordBatch.from_arrays([*to_batch(rows).columns, orders], schema=SOURCED)
