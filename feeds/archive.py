"""A feed archive, replayed: every item arrives again as it was first seen.

In: a directory `ARCHIVE/<feed>/<UTC time>….xml`, each file a snapshot of that feed, its name
starting with the time as `20210717T101303Z`. Out: document rows in order of first sight over all
feeds: snapshots by time, items of one snapshot by their timestamp. An item that a later snapshot
shows with other content comes again as a revision; unchanged ones do not come again, nor do those
whose guid alone has changed (`identity`).

A feed's source is the name of its directory. Its items flow through the stream of that name (made
a name), the stream named after the feed's title, and the default stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from feeds.adapter import Channel
from feeds.delta import DeltaReader
from feeds.fetch import MAX_BYTES
from feeds.identity import reuse_ids, trace
from feeds.item import stream_name, streams_of
from feeds.rows import DocumentRow, dead_row, item_row
from feeds.unpack import BadEncoding, TooLarge, gunzip

_TIME = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)T(\d\d)[:-]?(\d\d)[:-]?(\d\d)Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Report = Callable[[str, str], None]
"""Called with a place (a path) and what is wrong there."""


@dataclass(frozen=True, slots=True, order=True)
class Snapshot:
    """One file of an archive; `time` is in microseconds since the epoch. Ordered by time."""

    time: int
    feed: str
    path: Path


def snapshots(archive: str | Path, report: Report | None = None) -> list[Snapshot]:
    """The snapshots of an archive in order of time; files without a time in their name are
    reported.

    Raises NotADirectoryError if there is no such directory.
    """
    archive = Path(archive)
    if not archive.is_dir():
        raise NotADirectoryError(f"archive: {archive} is not a directory")
    found = []
    for path in sorted(archive.glob("*/*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        time = _time_of(path.name)
        if time is None:
            if report:
                report(str(path), "archive: no UTC time at the start of the file's name")
        else:
            found.append(Snapshot(time, path.parent.name, path))
    return sorted(found)


def replay(
    archive: str | Path,
    report: Report | None = None,
    on_snapshot: Callable[[], object] = lambda: None,
) -> Iterator[DocumentRow]:
    """The document rows of an archive, in order of first sight.

    A snapshot that cannot be read is reported and yields one row with an `error`, a dead letter.
    Problems of snapshots that were recovered are reported too. `on_snapshot` is called for each
    snapshot, before its rows come. Rows have no `seq`: a source may drop repetitions by (source,
    id).
    """
    seen: dict[str, dict[str, _Seen]] = {}
    previous: dict[str, bytes] = {}
    readers: dict[str, DeltaReader] = {}
    for snapshot in snapshots(archive, report):
        on_snapshot()
        body, error = _read(snapshot.path)
        if body == previous.get(snapshot.feed):
            continue  # the same bytes hold the same items
        previous[snapshot.feed] = body
        place = str(snapshot.path)
        if error is None:
            reader = readers.setdefault(snapshot.feed, DeltaReader(snapshot.feed))
            channel = reader.parse(body, snapshot.time)
            error = channel.error
        if error is not None:
            if report:
                report(place, f"parse: {error}")
            yield dead_row(snapshot.feed, body, error, place, snapshot.time)
            continue
        if report:
            for problem in channel.problems:
                report(place, f"parse: {problem}")
        for row in sorted(
            _news(channel, snapshot, seen.setdefault(snapshot.feed, {})),
            key=lambda row: row.timestamp,
        ):
            yield row._replace(arrival=snapshot.time)


@dataclass(frozen=True, slots=True)
class _Seen:
    """An item as it was when it was last seen."""

    hash: bytes
    timestamp: int
    trace: bytes


def _news(channel: Channel, snapshot: Snapshot, seen: dict[str, _Seen]) -> Iterator[DocumentRow]:
    streams = streams_of(channel.title, snapshot.feed, stream_name(snapshot.feed))
    traces = {id: known.trace for id, known in seen.items()}
    for item in reversed(reuse_ids(channel.items, traces)):
        known = seen.get(item.id)
        digest = item.content_hash()
        if known is not None and known.hash == digest:
            continue
        revision = known is not None
        # An undated item keeps the time at which it was first seen.
        timestamp = known.timestamp if known is not None and not item.dated else item.timestamp
        seen[item.id] = _Seen(digest, timestamp, trace(item))
        yield item_row(
            replace(item, timestamp=timestamp),
            snapshot.feed,
            streams,
            str(snapshot.path),
            revision=revision,
        )


def _read(path: Path) -> tuple[bytes, str | None]:
    """The bytes of a snapshot, and why they could not be read, None if they could."""
    try:
        with path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
    except OSError as error:
        return b"", error.strerror or str(error)
    try:
        return gunzip(body, MAX_BYTES), None
    except TooLarge:
        return body, f"larger than {MAX_BYTES} bytes"
    except BadEncoding as error:
        return body, str(error)


def _time_of(name: str) -> int | None:
    match = _TIME.match(name)
    if match is None:
        return None
    try:
        moment = datetime(*map(int, match.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        return None
    return (moment - _EPOCH).days * 86_400_000_000 + (moment - _EPOCH).seconds * 1_000_000
