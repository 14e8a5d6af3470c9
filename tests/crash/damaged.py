"""Damages of a state that is being killed: after each kill copies of it are damaged, and judged."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from broker.service.core.core import Core
from feeds.spool import read_rows
from tests.crash.damages import REFUSED, all_matches, random_damage
from tests.service.data import settings


@dataclass(frozen=True, slots=True)
class Found:
    """The ids of all matches of a state once it has matched all that it accepted, what it told of
    itself, and its dead letters."""

    matches: frozenset[str]
    events: frozenset[str]
    letters: int


class Damages:
    """Damages copies of a state. A damage is refused, or told, or everything is there in the end;
    `outcomes` says how often each was the case."""

    def __init__(self, directory: Path, seed: int, each: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self._directory = directory
        self._random = Random(f"damages {seed}")
        self._each = each

    def look(self, state: Path) -> None:
        """Damage copies of a state that was killed just now. Raises AssertionError where something
        is lost without a word."""
        killed, older = self._directory / "killed", self._directory / "older"
        shutil.rmtree(killed, ignore_errors=True)
        _copy(state, killed)
        if older.exists():
            whole = self._opened(killed, lambda _: "nothing")[0]
            assert isinstance(whole, Found), f"a killed state is refused: {whole}"
            for _ in range(self._each):
                self._judge(killed, older, whole)
            shutil.rmtree(older)
        killed.rename(older)

    def _judge(self, killed: Path, older: Path, whole: Found) -> None:
        found, what = self._opened(killed, random_damage(self._random, older))
        if not isinstance(found, Found):
            self.outcomes["refused"] += 1
        elif found.matches == whole.matches and found.letters >= whole.letters:
            self.outcomes["whole"] += 1
        else:
            gone = len(whole.matches - found.matches)
            assert found.events - whole.events, f"{what}: {gone} matches lost without a word"
            self.outcomes["told"] += 1

    def _opened(self, killed: Path, damage: Callable[[Path], str]) -> tuple[Found | str, str]:
        """What a damaged copy has, or why it is refused; and which damage it was."""
        scratch = self._directory / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        _copy(killed, scratch)
        what = damage(scratch)
        try:
            core = Core(settings(scratch))
        except REFUSED as error:
            return str(error), what
        try:
            while rows := [*read_rows(core.spool.path, core.position, 2**62)][:100]:
                core.apply(rows)
            core.empty_outbox()
            matches = all_matches(core)
            return (
                Found(
                    frozenset([each.match.id for each in matches]),
                    frozenset([repr(each) for each in core.mailbox.events()]),
                    core.engine.count_letters(),
                ),
                what,
            )
        except REFUSED as error:
            return str(error), what
        finally:
            core.close()


def _copy(state: Path, to: Path) -> None:
    ignored = shutil.ignore_patterns("*-shm", "lock", "*.log", "*.tmp")
    shutil.copytree(state, to, ignore=ignored)
