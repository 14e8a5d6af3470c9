"""Stage 1 of the next batch in a process of its own, while this one does stage 2 of the last one.

    Ahead      in the process of the engine: `begin` sends documents, `arrivals` takes the answer
    main       in the other: documents in, witnesses out, one after the other

The other process decides nothing and stores nothing. What it answers is taken only if it is about
the same documents and by the patterns of now; in all other cases, and where it died, this process
does stage 1 itself. It gets the patterns as Spark's executors do (`matcher_for`), and ends when its
input does.
"""

from __future__ import annotations

import gc
import marshal
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import IO, Any, NamedTuple, Protocol

import pyarrow as pa

from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals, matcher_for, witness
from feeds.rows import DocumentRow
from xscl.growth import collect_rarely
from xscl.stage1.matcher import Matcher
from xscl.stage1.outlines import Outline

WORTH = 200
"""Documents in a batch below which to send them takes longer than it spares."""

_MOST = 500_000
"""Edges of the patterns above which another copy of them takes too much memory."""

_FAILURES = 3
"""Processes that died in a row after which there is none any more."""

_PATIENCE = 5.0
"""Seconds for which an answer is waited for: where stage 1 takes longer, this process does it and
notices what it is that takes so long."""

_SIZES = Struct("<QQ")
"""The bytes of a message, and of what stands behind it."""

_PARTS = 1_024
"""The most that systems write in one call."""

_WITH_DOCUMENTS = 64 << 10
"""Bytes of patterns above which they are sent before documents are: it takes the process a while to
have them, and its answer would be waited for."""

_HELD = 16 << 20
"""Bytes of a file in memory that are kept for the next message: pages that are given back have to
be got again, which takes longer than to write them."""


class Patterns(Protocol):
    """An engine: what stage 1 matches, here and in another process."""

    @property
    def matcher(self) -> Matcher: ...
    def spec(self) -> bytes:
        """The same object until the patterns change; see `Registry.spec`."""


class _Done(NamedTuple):
    """What became of documents by these patterns."""

    rows: Sequence[DocumentRow]
    spec: bytes
    answer: Any


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_is_busy() -> bool:
    """Whether far more programs want the processors than there are: two processes would then wait
    for each other to be run, and be slower than one."""
    return os.getloadavg()[0] > 2 * cores()


class Ahead:
    """Stage 1 for the engine `patterns`. Used by one thread, with the engine's lock held if there
    is one. Unless it is `enabled`, and while the machine `is_busy`, all is done in this process.
    The other one may take `memory` bytes, None for as much as it wants: beyond that it ends."""

    def __init__(
        self,
        patterns: Patterns,
        enabled: bool,
        is_busy: Callable[[], bool] | None = None,
        memory: int | None = None,
    ) -> None:
        self._memory = memory
        self._is_busy = is_busy or machine_is_busy
        self._patterns = patterns
        self.enabled = enabled
        self._failures = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._memories: tuple[int, ...] = ()
        self._is_preparing = False
        """Whether it has not said yet that it has started, or that it has the patterns."""
        self._sent = b""
        """The patterns that the process has."""
        self._begun: tuple[Sequence[DocumentRow], bytes] | None = None
        """The documents that the process is at, and by which patterns."""
        self._done: _Done | None = None
        self.taken = 0
        """Batches whose stage 1 the other process did."""

    def begin(self, rows: Sequence[DocumentRow]) -> bool:
        """Have stage 1 done for the next batch; returns whether it is, as it may not be worth
        while. Called before `arrivals` of the batch that was begun last, whose answer is kept."""
        if not self.enabled or len(rows) < WORTH or self._is_busy():
            return False
        if len(self._patterns.matcher.edges) > _MOST:
            return False
        try:
            self._finish()
            if not self.ready():
                return False
            self._send(rows)
        except (OSError, EOFError, ValueError):
            self._died()
            return False
        return True

    def arrivals(self, rows: Sequence[DocumentRow]) -> Arrivals:
        """Documents and their witness rows, as stage 2 takes them."""
        try:
            if self._done is None or self._done.rows is not rows:
                self._finish()
        except (OSError, EOFError, ValueError):
            self._died()
        done = self._done
        if done is None or done.rows is not rows or done.spec is not self._patterns.spec():
            return arrivals(self._patterns.matcher, rows)
        self._done = None
        self._failures = 0
        self.taken += 1
        return _read(rows, done.answer)

    def ready(self, wait: float = 0) -> bool:
        """Whether the process has started and has the patterns, but for a few that changed lately;
        waits for each of both for so many seconds. The first call starts it."""
        if self.process is None:
            self._start()
        while True:
            if self._is_preparing:
                if not self._answers(wait):
                    return False
                self._from.receive()
                self._is_preparing = False
            _, part = self._unsent()
            if part is None or len(part) <= _WITH_DOCUMENTS:
                return True
            self._send()
            self._is_preparing = True

    def _start(self) -> None:
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._memories = memories = (_memory(), _memory())
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, *map(str, (*memories, self._memory or 0))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=memories,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to = _Channel(self.process.stdin, memories[0])
        self._from = _Channel(self.process.stdout, memories[1])
        self._is_preparing = True

    def _answers(self, wait: float) -> bool:
        """Whether the process says something within so many seconds."""
        # Not `select`, which takes no high numbers of files.
        said = select.poll()
        assert self.process is not None
        assert self.process.stdout is not None
        said.register(self.process.stdout, select.POLLIN)
        return bool(said.poll(wait * 1_000))

    def kill(self) -> None:
        """Let whoever waits for the process wait no longer; from any thread."""
        process = self.process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process, if there is one."""
        process = self.process
        self.process, self._begun, self._is_preparing, self._sent = None, None, False, b""
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.kill()
            process.stdout.close()
            with suppress(OSError):  # of what was not sent yet
                process.stdin.close()
            process.wait()
        for memory in self._memories:
            os.close(memory)
        self._memories = ()

    def _unsent(self) -> tuple[bool, bytes | None]:
        """The patterns that the process lacks, None if it has all, and whether they are all that
        there are."""
        spec, sent = self._patterns.spec(), self._sent
        if spec is sent:
            return False, None
        # Most changes are appended.
        return (False, spec[len(sent) :]) if sent and spec.startswith(sent) else (True, spec)

    def _send(self, rows: Sequence[DocumentRow] | None = None) -> None:
        """Send documents, and the patterns that the process lacks; None for these alone."""
        anew, part = self._unsent()
        self._sent = spec = self._patterns.spec()
        if rows is None:
            self._to.send((anew, part, None, None, None))
            return
        xml = [row.xml for row in rows]
        streams, errors = [row.streams for row in rows], [row.error for row in rows]
        self._begun = (rows, spec)
        self._to.send((anew, part, [*map(len, xml)], streams, errors), xml)

    def _finish(self) -> None:
        """Wait for what was begun, if anything was."""
        if self._begun is not None:
            rows, spec = self._begun
            self._begun = None
            if not self._answers(_PATIENCE):
                raise TimeoutError
            self._done = _Done(rows, spec, self._from.receive())

    def _died(self) -> None:
        """Go on without the process; the next batch may start another one."""
        self.close()
        self._failures += 1
        self.enabled = self._failures < _FAILURES


def _read(rows: Sequence[DocumentRow], answer: Any) -> Arrivals:
    (errors, texts, ids, paths), table = answer
    documents = [
        row if row.error == error else row._replace(error=error)
        for row, error in zip(rows, errors, strict=True)
    ]
    known = {id: Outline(id, each) for id, each in paths.items()}
    outlines = [known.get(id) for id in ids]
    return Arrivals(documents, pa.ipc.open_stream(table).read_all(), texts, outlines)


# -- messages: plain values ---------------------------------------------------------------------


class _Channel:
    """One direction: a message stands in a file in memory, and its length goes through a pipe. A
    message in the pipe itself would be handed over in pieces of 64 KiB, for each of which a busy
    machine has to run both processes in turn. The next one is sent when the last is answered."""

    def __init__(self, pipe: IO[bytes], memory: int) -> None:
        self._pipe = pipe
        self._memory = memory
        self._size = 0

    def send(self, message: Any, behind: Sequence[bytes] = ()) -> None:
        """Send plain values, and bytes that stand behind them, one after the other."""
        body = marshal.dumps(message)
        more = sum(map(len, behind))
        if self._size > _HELD:
            os.ftruncate(self._memory, 0)
            self._size = 0
        self._write([body, *behind])
        self._size = max(self._size, len(body) + more)
        self._pipe.write(_SIZES.pack(len(body), more))
        self._pipe.flush()

    def _write(self, parts: Sequence[bytes | memoryview]) -> None:
        at = 0
        for first in range(0, len(parts), _PARTS):
            left = parts[first : first + _PARTS]
            while left:
                done = os.pwritev(self._memory, left, at)
                at += done
                left = _behind(left, done)

    def receive(self) -> tuple[Any, bytes]:
        """The next message and what stands behind it; waits for it. Raises EOFError if none comes
        any more."""
        head = self._pipe.read(_SIZES.size)
        if len(head) < _SIZES.size:
            raise EOFError
        size, more = _SIZES.unpack(head)
        return marshal.loads(self._read(0, size)), self._read(size, more)

    def _read(self, at: int, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = os.pread(self._memory, size, at)
            if not part:
                raise EOFError
            parts.append(part)
            at += len(part)
            size -= len(part)
        return b"".join(parts)


def _behind(parts: Sequence[bytes | memoryview], done: int) -> Sequence[bytes | memoryview]:
    """What is left of parts of which so many bytes are written."""
    for place, part in enumerate(parts):
        if done < len(part):
            return [memoryview(part)[done:], *parts[place + 1 :]]
        done -= len(part)
    return ()


def _memory() -> int:
    """A file that is nowhere, and ends with those who have it open."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("documents")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


# -- the other process ----------------------------------------------------------------------------


def main() -> None:
    """Answer until the input ends."""
    # Whoever started this process is told to stop too, may go on for a while, and then ends it.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    asked, answered, memory = map(int, sys.argv[1:])
    if memory:
        with suppress(ValueError, OSError):  # beyond a limit that it has already
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    given, taken = _Channel(sys.stdin.buffer, asked), _Channel(sys.stdout.buffer, answered)
    spec, matcher = b"", Matcher()
    collect_rarely()
    try:
        taken.send(None)
        while True:
            (anew, part, sizes, streams, errors), xml = given.receive()
            if part is not None:
                spec = part if anew else spec + part
                matcher = matcher_for(spec)
                gc.freeze()
            if sizes is None:
                taken.send(None)
                continue
            ends = accumulate(sizes)
            documents = [xml[end - size : end] for end, size in zip(ends, sizes, strict=True)]
            message, table = _answer(matcher, zip(documents, streams, errors, strict=True))
            taken.send(message, [table])
    except MemoryError:
        # The one who asks does it himself, and finds the query that needs so much.
        os._exit(1)
    except (EOFError, BrokenPipeError):
        # Not to fail at what Python would write at its end.
        os._exit(0)


def _answer(matcher: Matcher, documents: Any) -> tuple[tuple[object, ...], bytes]:
    """What is told of documents, and their witness rows in Arrow's form."""
    found = witness(matcher, documents)
    rows = found.table()
    table = pa.BufferOutputStream()
    with pa.ipc.new_stream(table, rows.schema) as stream:
        stream.write_table(rows)
    outlines = [each.outline for each in found.each]
    told = (
        found.errors,
        [each.texts for each in found.each],
        [None if outline is None else outline.id for outline in outlines],
        {outline.id: outline.paths for outline in outlines if outline is not None},
    )
    return told, table.getvalue().to_pybytes()


if __name__ == "__main__":
    main()
