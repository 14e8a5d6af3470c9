"""What a workload did to the files of its state, and what it was told, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.disk.calls import ITSELF, Call, Kind
from tests.disk.power import Files, write
from tests.disk.workload import Fact, Known

COUNTED: frozenset[Kind] = frozenset({"write", "truncate", "sync"})
"""Calls that may fail."""

_AGAIN = (ITSELF, "spool.sqlite", "mailbox.sqlite", "working.json")


@dataclass(slots=True)
class Trace:
    """What happened: calls and facts in order. `failed` is the place of the call that got an error,
    and `errors` are those that the workload got; `broken` is the one that nobody expects."""

    events: list[Call | Fact] = field(default_factory=list)
    failed: int | None = None
    errors: list[str] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)
    broken: str = ""

    def known(self, upto: int | None = None) -> Known:
        """What is known by the facts before an event."""
        known = Known(unsure=set(self.unsure))
        for event in self.events[:upto]:
            if isinstance(event, Fact):
                known.learn(event)
        return known

    def places(self) -> list[int]:
        """Of the calls that may fail, once the engine has made its file: half of a file in which
        nothing is yet is refused."""
        calls = [(n, each) for n, each in enumerate(self.events) if isinstance(each, Call)]
        begin = next(n for n, c in calls if c.kind == "sync" and c.name == "broker.duckdb")
        return [n for n, call in calls if call.kind in COUNTED and n > begin]

    def survived(self) -> bool:
        """Whether what failed is nothing that anybody has to be told: SQLite copies its log into
        the file again the next time, marks of what is being worked on are not synced, and it does
        without the sync of a directory, which is not possible everywhere."""
        call = None if self.failed is None else self.events[self.failed]
        return isinstance(call, Call) and call.name in _AGAIN

    def what_failed(self) -> str:
        call = None if self.failed is None else self.events[self.failed]
        return f"{call.kind} of {call.name}" if isinstance(call, Call) else "nothing"

    def cut(self, upto: int, r: Random, directory: Path) -> Known:
        """Write the files as after a power cut before an event; what is known then."""
        files = Files()
        for at, event in enumerate(self.events[:upto]):
            if isinstance(event, Call):
                files.apply(event, r if at == self.failed else None)
        write(files.after_a_cut(r), directory)
        return self.known(upto)
