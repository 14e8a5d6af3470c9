"""What is known of a stream, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from broker.model import iso_time

_DAY = 86_400 * 1_000_000


class PathSeen(NamedTuple):
    """A label path of a stream, such as `/item/title` or `/item/timestamp/@dated`, by local names.

    `documents` have it: an exact count if `exact`, else estimated from a sample. `nodes` is how
    many nodes such a document has there, on average; `distinct` how many values differ among the
    `sampled` documents that have the path; `values` are the most frequent ones, each with its
    number of documents in the sample. A path of elements that hold others has no values.
    """

    path: str
    documents: int
    exact: bool
    nodes: float
    sampled: int
    distinct: int
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StreamSeen:
    """What is known of a stream. `first` and `last` are the times (microseconds) at which its
    oldest and its newest stored document end, and `documents` is how many there are; nothing is
    known of older ones. `known` of them count for `paths`: the others came before documents were
    counted, or have label paths that were left out because there are too many. `cut` documents have
    further paths that are not named. `size` is the bytes of a document, on average of the `sampled`
    ones."""

    name: str
    documents: int
    known: int
    first: int
    last: int
    sampled: int
    cut: int
    size: float
    paths: tuple[PathSeen, ...]

    @property
    def per_day(self) -> float:
        """Documents a day, by their own times."""
        return per_day(self.documents, self.first, self.last)

    def as_json(self) -> dict[str, Any]:
        """The stream as the API and the command show it; times in ISO 8601."""
        return {
            "name": self.name,
            "documents": self.documents,
            "known": self.known,
            "since": iso_time(self.first),
            "until": iso_time(self.last),
            "per_day": round(self.per_day, 1),
            "sampled": self.sampled,
            "cut": self.cut,
            "size": round(self.size, 1),
            "paths": [
                {
                    "path": each.path,
                    "documents": each.documents,
                    "exact": each.exact,
                    "nodes": round(each.nodes, 2),
                    "sampled": each.sampled,
                    "distinct": each.distinct,
                    "values": [{"value": value, "documents": n} for value, n in each.values],
                }
                for each in self.paths
            ],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> StreamSeen:
        """The stream of `as_json`."""
        paths = [
            PathSeen(
                *(each["path"], each["documents"], each["exact"], each["nodes"], each["sampled"]),
                each["distinct"],
                tuple((value["value"], value["documents"]) for value in each["values"]),
            )
            for each in found["paths"]
        ]
        first, last = (
            round(datetime.fromisoformat(found[name]).timestamp() * 1_000_000)
            for name in ("since", "until")
        )
        return cls(
            *(found["name"], found["documents"], found["known"], first, last),
            *(found["sampled"], found["cut"], found["size"], (*paths,)),
        )

    def find(self, path: str) -> PathSeen | None:
        """The label path of this text, None if no document has it."""
        return next((each for each in self.paths if each.path == path), None)


def per_day(documents: int, first: int, last: int) -> float:
    """Documents a day, if so many came between two times (microseconds). Less than an hour is taken
    for an hour: a burst says nothing about a day."""
    return documents * _DAY / max(last - first, _DAY // 24)
