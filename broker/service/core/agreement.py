"""Whether the files of a state are those that it had, found out at each start.

In: the open files, and the proof of what they held (`broker/state/proof.py`). Out: from where
documents are to be matched, and events for what was missing. What can be made good is: documents
are matched again, matches handed over again. Files of another state are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import structlog

from broker.delivery import Mailbox
from broker.engine import Engine
from broker.state.proof import Proof, Proven
from broker.state.store import StateError
from feeds.spool import Spool, seq_after, sources

_log = structlog.get_logger(__name__)

PROOF = "proof"
"""The file of the proof in a state directory."""
_PROVEN = "proven"
"""The number in the engine that says whether the state has a proof."""
_AT_ONCE = 500
"""Rows of the outbox that are handed over again at once."""
_AGAIN = 200
"""Rows that are handed over again at each start: the proof of the last may not be synced."""

LOST, OLDER, REPAIRED = "state.lost", "state.older", "state.repaired"


@dataclass(slots=True)
class Agreement:
    """`position`: the number of the last document of the spool that needs not be matched. `gap`:
    numbers that no document has any more, if others before them are still to be matched. `events`:
    kinds and texts of what was found."""

    position: int = 0
    gap: range = range(0)
    events: list[tuple[str, str]] = field(default_factory=list)

    def report(self, kind: str, text: str) -> None:
        _log.warning(kind, text=text)
        self.events.append((kind, text))


def refuse_without_engine(state: Path) -> None:
    """Raises StateError if the engine's file is missing, and the proof says that there was one. To
    be called before the file is made."""
    if (state / "broker.duckdb").exists() or not (state / PROOF).exists():
        return
    proof = Proof(state / PROOF)
    found = proof.found
    proof.close()
    if found is not None and (found.position or found.changes):
        raise StateError(
            f"{state / 'broker.duckdb'}: missing, with all subscriptions and the documents that "
            f"were matched, {found.position:,} so far. Restore a backup into a new directory "
            f"(broker restore); or delete {state / PROOF}, and the broker begins here without them"
        )


def agree(engine: Engine, spool: Spool, mailbox: Mailbox, proof: Proof, now: int) -> Agreement:
    """Compare the files with what is proven of them and with each other, and make good what can be;
    the proof holds what they hold then. `now` is in microseconds since 1970.

    Raises StateError for a file that is another's.
    """
    found = Agreement()
    proven = proof.found or Proven()
    if proof.found is None and engine.store.number(_PROVEN, 0):
        what = "damaged" if proof.damaged else "missing"
        found.report(
            LOST,
            f"{proof.path.name} is {what}: nobody can say whether the other files are complete",
        )
    # The engine of an old state has one position per source instead of one of the log.
    applied = engine.position or engine.applied(sources(spool.path))
    _refuse_others(spool, mailbox, proven)
    _agree_mailbox(found, engine, mailbox, proof, now if applied or proven.position else 0)
    _agree_engine(found, engine, spool, proof, applied)
    _agree_spool(found, spool, proven)
    for kind, text in found.events:
        mailbox.record_event(kind, text)
    note(proof, engine, spool, mailbox)
    proof.sync()
    if not engine.store.number(_PROVEN, 0):
        with engine.store.transaction():
            engine.store.set_numbers(**{_PROVEN: 1})
    return found


def note(proof: Proof, engine: Engine, spool: Spool, mailbox: Mailbox) -> None:
    """Note what the files hold; each of them has committed it."""
    note_engine(proof, engine)
    proof.note_documents(*spool.end())
    note_mailbox(proof, mailbox)


def note_engine(proof: Proof, engine: Engine) -> None:
    proof.note(position=engine.position, changes=engine.registry.changes)


def note_mailbox(proof: Proof, mailbox: Mailbox) -> None:
    commits, last, (batch, batch_sum) = mailbox.proof()
    proof.note(commits=commits, matches=last, batch=batch, batch_sum=batch_sum)


def _refuse_others(spool: Spool, mailbox: Mailbox, proven: Proven) -> None:
    chain = spool.chain_at(proven.documents)
    if proven.documents and chain not in (None, proven.chain):
        raise StateError(_another(spool.path))
    batch_sum = mailbox.batch_sum(proven.batch)
    if proven.batch and batch_sum not in (None, proven.batch_sum):
        raise StateError(_another(mailbox.path))


def _another(path: Path) -> str:
    return (
        f"{path}: not the file that this state had: what it holds differs from what was proven of "
        "it. Put the right one back, or restore a backup into a new directory (broker restore)"
    )


# -- the mailbox ---------------------------------------------------------------------------------


def _agree_mailbox(
    found: Agreement, engine: Engine, mailbox: Mailbox, proof: Proof, begin: int
) -> None:
    """Give the mailbox again what it has lost, as far as the engine has kept it."""
    proven = proof.found or Proven()
    commits, last, (batch, _) = mailbox.proof()
    # Clients that continue after a number of a lost mailbox must not miss matches. Numbers that
    # begin at the microseconds since 1970 are higher than any that a log has reached.
    new = mailbox.begin_behind(begin) is not None and begin > 0
    missing = max(0, proven.commits - commits)
    lacks = last < proven.matches or 0 < batch < proven.batch
    if last < proven.matches and not new:
        mailbox.skip_numbers()
    everything = bool(missing or lacks or new or not proof.found)
    again = _hand_over_again(engine, mailbox, everything=everything)
    name = mailbox.path.name
    if again:
        found.report(REPAIRED, f"{name} has {again:,} matches again that it had lost")
    lost = max(0, proven.matches - (0 if new else last) - again)
    if new:
        _log.warning("mailbox.new", numbers_above=mailbox.last())
        found.report(
            LOST,
            f"{name} was missing or empty: the channels are gone, and all matches but the "
            f"{again:,} that the engine had kept. Numbers of matches begin above {begin:,}",
        )
    elif missing or lost:
        which = [f"{lost:,} matches, up to number {proven.matches:,}"] if lost else []
        which += [f"its last {missing:,} changes"] if missing else []
        found.report(
            LOST,
            f"{name} is older than it was: {' and '.join(which)} are gone. Channels may have "
            "changed since, and deliveries are repeated",
        )


def _hand_over_again(engine: Engine, mailbox: Mailbox, *, everything: bool) -> int:
    """Hand over matches that were handed over before; returns how many the mailbox did not have."""
    if not mailbox.last() and not engine.outbox.handed:
        return 0
    after = 0 if everything else engine.outbox.handed - _AGAIN
    added = 0
    while matches := engine.acknowledged(after, _AT_ONCE):
        added += mailbox.take(matches)
        after = max(match.posted or 0 for match in matches)
    return added


# -- the engine ----------------------------------------------------------------------------------


def _agree_engine(
    found: Agreement, engine: Engine, spool: Spool, proof: Proof, applied: int
) -> None:
    """Find out what the engine has forgotten, and from where documents have to be matched."""
    proven = proof.found
    found.position = applied
    changes = 0 if proven is None else proven.changes - engine.registry.changes
    if changes > 0:
        found.report(
            OLDER,
            f"the state is older than it was: the last {changes:,} changes of subscriptions are "
            "not in it. Compare broker list with what you expect, or restore a backup",
        )
    # Rows are deleted after the engine has committed them. If rows behind its position are missing,
    # a part of the engine's file was lost.
    last = spool.last_seq()
    next_row = seq_after(spool.path, applied, 1)
    upto = (next_row if next_row > applied else last + 1) - 1
    if proven is not None:
        upto = min(upto, proven.position)
    if upto > applied and engine.position:
        found.report(
            OLDER,
            f"the state is older than its spool: documents {applied + 1:,} to {upto:,} had been "
            "matched and are not in it any more. Restore a backup, or publish them again",
        )
    found.position = max(applied, upto)
    if proven is not None and found.position < min(proven.position, last):
        found.report(
            REPAIRED,
            f"the state is older than it was: documents {found.position + 1:,} to "
            f"{proven.position:,} are matched again",
        )


# -- the spool -----------------------------------------------------------------------------------


def _agree_spool(found: Agreement, spool: Spool, proven: Proven) -> None:
    """Find out which accepted documents are lost, and go around them."""
    name, last = spool.path.name, spool.last_seq()
    wrong, missing = spool.verify(found.position)
    for place in wrong:
        found.report(LOST, f"{name}: {place} is damaged: it is a dead letter now; publish it again")
    beside = [range(max(each.start, found.position + 1), each.stop) for each in spool.missing]
    for numbers in [*missing, *[each for each in beside if each and each not in missing]]:
        found.report(LOST, _lost(name, numbers[0], numbers[-1]))
    end = max(proven.documents, proven.position, found.position)
    if last < end:
        _log.warning("spool.behind", last=last, proven=end)
        first = max(last, proven.position, found.position) + 1
        if first <= end:
            found.report(LOST, _lost(name, first, end))
        else:
            found.report(
                REPAIRED,
                f"{name} is older than it was: its documents {last + 1:,} to {end:,} were all "
                "matched. Look whether broker feeds list is complete: items of feeds that come "
                "again are recognised",
            )
        spool.skip_to(end)
    pending = seq_after(spool.path, found.position, 2**62)
    if pending == found.position:
        found.position = spool.last_seq()
    elif pending < end:
        found.gap = range(pending, end + 1)


def _lost(name: str, first: int, last: int) -> str:
    return (
        f"documents {first:,} to {last:,} were accepted and are not in {name} any more, and not "
        "matched: publish again what was published last; feeds are fetched again"
    )
