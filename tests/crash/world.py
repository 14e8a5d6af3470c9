"""The documents of the crash tests: small, drawn from a seed, and known beforehand.

Documents come in groups of one key, and every query joins by the key. So documents of different
groups never match, and the oracle, which tries every combination, may be asked group by group.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Literal

from broker.model import iso_time

SECOND = 1_000_000
DAY = 86_400 * SECOND
_GROUP = 7
_OPEN = 8
"""Groups that still get documents, so that an item may be edited between two of its own."""
_STEP = 20 * 60 * SECOND
"""Between the times of two groups."""
_SPREAD = 150 * 60
"""Seconds in which the documents of a group lie."""
_LATE = 400 * DAY
_SOME = 100

Kind = Literal["posted", "item", "late", "torn"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Doc:
    """`streams` and `xml` as the engine sees them. A `late` one is older than the lateness allows;
    a `torn` one is not well-formed."""

    id: str
    source: str
    streams: tuple[str, ...]
    timestamp: int
    xml: str
    key: str
    kind: Kind

    @property
    def name(self) -> tuple[str, str]:
        """The key by which the engine identifies the document."""
        return self.source, self.id

    def line(self) -> dict[str, object]:
        """The line of JSON to publish."""
        time = iso_time(self.timestamp)
        return {"id": self.id, "timestamp": time, "xml": self.xml, "source": self.source}


@dataclass(frozen=True, slots=True)
class Entry:
    """An item of a feed; the site may change it, and then it has another `version`."""

    number: int
    key: str
    timestamp: int

    def rss(self, version: int) -> str:
        date = format_datetime(_EPOCH + timedelta(microseconds=self.timestamp), usegmt=True)
        return (
            f"<title>{self.key}</title><guid isPermaLink='false'>i{self.number}</guid>"
            f"<category>v{version}</category>"
            f"<link>http://example.org/{self.number}</link><pubDate>{date}</pubDate>"
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """A version of an item, and the first moment at which a feed showed it."""

    doc: Doc
    moment: int


class World:
    """Makes documents, for any thread. The newest is dated some days before now, so that nothing is
    dated in the future, and `lateness` before that nothing is late."""

    def __init__(self, seed: int, now: datetime) -> None:
        self._random = Random(f"world {seed}")
        self._lock = threading.Lock()
        self._begin = (now.replace(microsecond=0) - timedelta(days=200) - _EPOCH) // timedelta(
            microseconds=1
        )
        self._made = 0
        self._torn = False
        self._moment = 0
        self.docs: dict[tuple[str, str], Doc] = {}
        self.versions: dict[tuple[str, str], dict[int, Shown]] = {}
        """Of items, those that were shown."""

    def moment(self) -> int:
        """A number that increases with each call."""
        with self._lock:
            self._moment += 1
            return self._moment

    def post(self, most: int) -> list[Doc]:
        """The next documents of one stream to publish."""
        with self._lock:
            stream = self._random.choice(("S", "S", "T"))
            source = self._random.choice((f"post:{stream}", "wire"))
            count = self._random.randint(1, most)
            return [self._posted(stream, source) for _ in range(count)]

    def _posted(self, stream: str, source: str) -> Doc:
        random = self._random
        number, key, timestamp = self._next()
        kind: Kind = "posted"
        if number > _SOME:  # what is late is so by what was there before
            # One at least, however few come in all.
            kind = (
                random.choices(("posted", "late", "torn"), (100, 1, 1))[0] if self._torn else "torn"
            )
            self._torn |= kind == "torn"
        name = random.choice("abc")
        v, n = random.randrange(5), random.randrange(100)
        xml = f"<{name}><k>{key}</k><v>{v}</v><n>{n}</n></{name}>"
        if kind == "late":
            timestamp -= _LATE
        elif kind == "torn":
            xml = xml[: random.randrange(3, len(xml) - 2)]
        return self._keep(Doc(f"d{number}", source, (stream,), timestamp, xml, key, kind))

    def entry(self) -> Entry:
        """The next item of a feed; `shown` adds it."""
        with self._lock:
            return Entry(*self._next())

    def shown(self, doc: Doc, version: int, moment: int) -> None:
        with self._lock:
            if doc.name not in self.docs:
                self._keep(doc)
            self.versions.setdefault(doc.name, {}).setdefault(version, Shown(doc, moment))

    def latest(self) -> dict[tuple[str, str], Doc]:
        """Each document in its last version."""
        return self.docs | {name: shown[max(shown)].doc for name, shown in self.versions.items()}

    def _next(self) -> tuple[int, str, int]:
        """Number, key and time of a document."""
        self._made += 1
        group = max(0, (self._made - 1) // _GROUP - self._random.randrange(_OPEN))
        time = self._begin + group * _STEP + self._random.randrange(_SPREAD) * SECOND
        assert time < self._begin + 199 * DAY, "too many documents"
        return self._made, f"k{group}", time

    def _keep(self, doc: Doc) -> Doc:
        self.docs[doc.name] = doc
        return doc
