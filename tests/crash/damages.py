"""Random damages of a state that was killed: `python -m tests.crash.damages [--count 500] [--seed N]`.

A bit is flipped, an end is cut off, a file is removed or replaced by an older copy. Each time the
state is refused, or it is told what is missing, or everything is there in the end. Prints how often
each was the case, and ends with 1 where something was lost without a word.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from broker.delivery import MailboxError
from broker.delivery.model import Delivered
from broker.errors import BrokerError
from broker.service.core.core import Core
from broker.service.intake import Intake
from broker.state.store import DatabaseError
from feeds.spool import SpoolError, read_rows
from tests.service.data import ORDERS, order, settings
from tests.service.test_maintenance import subscribe

REFUSED = (BrokerError, SpoolError, MailboxError, DatabaseError, OSError)
DONE, PENDING = 60, 40


class States:
    """A state as it was killed, with orders that are matched and orders that wait, and a copy of
    each file from before the last of both."""

    def __init__(self, directory: Path) -> None:
        live = directory / "live"
        core = Core(settings(live))
        subscribe(core, ORDERS)
        self._accept(core, range(DONE // 2))
        self._match(core)
        core.prove()
        self.older = directory / "older"
        shutil.copytree(live, self.older)
        self._accept(core, range(DONE // 2, DONE))
        self._match(core)
        core.prove()
        self._accept(core, range(DONE, DONE + PENDING))
        self.killed = directory / "killed"
        shutil.copytree(live, self.killed)
        core.close()
        self.scratch = directory / "scratch"

    def _accept(self, core: Core, numbers: range) -> None:
        for number in numbers:
            Intake(core, lambda: 1.0).publish("S", [order(number)])

    def _match(self, core: Core) -> None:
        rows = list(read_rows(core.spool.path, core.position, 2**62))
        if rows:
            core.apply(rows)

    def outcome(self, damage: Callable[[Path], str]) -> tuple[str, str]:
        """What came of a damage ("refused", "told", "whole" or "LOST"), and which one it was."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self.killed, self.scratch)
        what = damage(self.scratch)
        try:
            core = Core(settings(self.scratch))
        except REFUSED:
            return "refused", what
        try:
            self._match(core)
            core.empty_outbox()
            told = bool(core.mailbox.events())
            found = [m.match.values["p"][0] for m in all_matches(core)]
        except REFUSED:
            return "refused", what
        finally:
            core.close()
        if found == [str(n) for n in range(DONE + PENDING)]:
            return "whole", what
        return ("told" if told else "LOST"), what


def all_matches(core: Core) -> list[Delivered]:
    """All matches of the log. Raises MailboxError at one that cannot be read, which comes first on
    its page."""
    found: list[Delivered] = []
    while page := core.mailbox.matches(None, found[-1].n if found else 0, 1_000_000):
        found += page
    return found


def random_damage(random: Random, older: Path) -> Callable[[Path], str]:
    """Some damage of some file of a state."""

    def damage(state: Path) -> str:
        names = [path.name for path in sorted(state.iterdir()) if _is_ours(path)]
        path = state / random.choice(names)
        kind = random.choice(("flip", "cut", "remove", "older"))
        size = path.stat().st_size
        at = random.randrange(max(size, 1))
        if kind == "flip" and size:
            content = bytearray(path.read_bytes())
            content[at] ^= 1 << random.randrange(8)
            path.write_bytes(content)
        elif kind == "cut":
            with path.open("r+b") as file:
                file.truncate(at)
        elif kind == "older" and (older / path.name).exists():
            shutil.copy(older / path.name, path)
        else:
            kind = "remove"
            path.unlink()
        return f"{kind} {path.name} at {at:,}"

    return damage


def _is_ours(path: Path) -> bool:
    # SQLite makes the index of a write-ahead log anew.
    return path.is_file() and path.name != "lock" and not path.name.endswith("-shm")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="damages-") as directory:
        states = States(Path(directory))
        for number in range(args.count):
            random = Random(args.seed * 1_000_000 + number)
            outcome, what = states.outcome(random_damage(random, states.older))
            total[outcome] += 1
            if outcome == "LOST":
                print(f"LOST: {what} (number {number})", flush=True)
    print(f"{args.count} damages: {', '.join(f'{n} {name}' for name, n in total.items())}")
    return int(total["LOST"] > 0)


if __name__ == "__main__":
    sys.exit(main())
