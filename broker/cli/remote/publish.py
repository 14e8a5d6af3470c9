"""`broker publish`: sends documents to a stream until the service has accepted them.

In: XML files, files of JSON lines, standard input. Out: requests, one after the other. Each
document is given an id before it is sent, so a request without a response is sent again.
"""

from __future__ import annotations

import json
import re
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click

from broker.cli.progress import Work, quiet_option
from broker.cli.remote.answers import object_of
from broker.cli.remote.client import Refused, Service, Unreachable, part
from broker.cli.remote.options import patience_option, with_service
from broker.cli.shared import Failed, console, plural
from broker.cli.signals import if_stopped

_MOST_LINES = 500
_MOST_BYTES = 2_000_000
_LINES_SUFFIXES = {".jsonl", ".ndjson"}
_LONGEST_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class Document:
    """A document to send: a line of JSON, or XML with its headers. `place` is for messages."""

    data: bytes
    place: str
    size: int
    """Bytes of the file from which it was read."""
    headers: tuple[tuple[str, bytes], ...] = ()


class Sender:
    """Sends documents to a stream. `done` is the number of documents accepted by an earlier run. A
    service that does not respond is retried for `patience` seconds."""

    def __init__(self, service: Service, stream: str, patience: float, done: int = 0) -> None:
        self.service = service
        self.path = f"/v1/streams/{part(stream)}/documents"
        self.patience = patience
        self.accepted = 0
        self.known = 0
        self._unknown = 0
        """Documents of which it is not known whether they were accepted."""
        self._accepted_before = done
        self._last_reason = ""

    def send(self, documents: Sequence[Document], work: Work) -> None:
        """Send documents until they are accepted. Raises Failed with how many were accepted."""
        end = time.monotonic() + self.patience
        pause = 0.5
        retried = False
        while True:
            try:
                self._unknown = len(documents)
                known = self._post(documents)
                break
            except Unreachable as error:
                retried = True
                if time.monotonic() >= end:
                    raise self.failure(str(error), len(documents)) from None
                reason, wait = str(error), pause
            except Refused as error:
                if error.status == 413 and len(documents) > 1:
                    half = len(documents) // 2
                    self.send(documents[:half], work)
                    return self.send(documents[half:], work)
                if error.status in (429, 507) and not retried:
                    self._unknown = 0
                # 429: the service has a backlog, which it works off, so there is no time limit.
                retry = error.status == 429 or time.monotonic() < end
                if error.status not in (429, 503, 507) or not retry:
                    raise self._refusal(error, documents, work) from None
                reason, wait = str(error), max(pause, error.retry_after)
            except Failed as error:
                raise self.failure(str(error), len(documents)) from None
            self._report_wait(work, f"{reason}; trying again in {max(wait, 1.0):.0f} s", reason)
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)
        self.accepted += len(documents)
        self._unknown = 0
        # After a retry, documents may be known from the attempt whose response was lost.
        self.known += 0 if retried else known
        work.advance(len(documents), part=sum(document.size for document in documents), note="")
        self._last_reason = ""
        return None

    def _post(self, documents: Sequence[Document]) -> int:
        """Send one request; returns how many of the documents were known already."""
        import httpx

        kind = b"application/xml" if documents[0].headers else b"application/x-ndjson"
        response = self.service.ask(
            "POST",
            self.path,
            content=b"\n".join(document.data for document in documents),
            headers=[("Content-Type", kind), *documents[0].headers],
            timeout=httpx.Timeout(120.0, connect=5.0),
            wait=False,
        )
        return int(object_of(response)["known"])

    def _refusal(self, error: Refused, documents: Sequence[Document], work: Work) -> Failed:
        """Send the documents before the one that was refused; returns the error with its place."""
        bad, reason = 0, str(error)
        line = error.errors[0].get("line") if error.errors else None
        if isinstance(line, int) and 1 <= line <= len(documents):
            bad, reason = line - 1, str(error.errors[0].get("message"))
        if bad:
            self.send(documents[:bad], work)
        subject = error.errors[0].get("where") if error.errors else None
        if error.status in (413, 422) and subject != "stream":
            reason = f"{documents[bad].place}: {reason}"
        return self.failure(reason, code=error.code)

    def _report_wait(self, work: Work, message: str, reason: str) -> None:
        work.advance(note=message)
        # Once per reason in a log, not at each attempt; how much is free differs each time.
        reason = re.sub(r"\d[\d,.]*", "", reason)
        if reason != self._last_reason and not sys.stderr.isatty():
            console.print(f"{self.count()}: {message}")
        self._last_reason = reason

    def count(self) -> str:
        """The number of accepted documents, and how many of these were known already."""
        text = plural(self.accepted, "document") + " accepted"
        if not self.known:
            return text
        which = "" if self.known == self.accepted else f"{self.known:,} of them "
        return f"{text}, {which}known already"

    def failure(self, reason: str, unknown: int = 0, code: int = 1) -> Failed:
        """The error with the reason, the number of accepted documents, and how to continue."""
        done = self._accepted_before + self.accepted
        text = f"{reason}\n{self.count()}"
        if unknown:
            text += (
                f", of {unknown:,} more it is not known"
                " (with --key, sending them again adds nothing)"
            )
        failed = Failed(f"{text}; to go on behind them: --skip {done}" if done else text)
        failed.code = code
        return failed

    def interrupted(self) -> str:
        """What is said when a signal ends it."""
        return str(self.failure("interrupted", self._unknown))


@click.command()
@click.argument("stream")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@click.option(
    "--key",
    help="Make the ids of documents that have none from KEY, the name of the file and the line, so "
    "that publishing them once more under this key adds nothing.",
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Leave out the first N documents, which were accepted before.",
)
@click.option("--revision", is_flag=True, help="They replace the documents of the same ids.")
@patience_option("1 min")
@quiet_option
@with_service
def publish(
    service: Service,
    stream: str,
    files: tuple[str, ...],
    key: str | None,
    skip: int,
    revision: bool,
) -> None:
    """Publish documents to a STREAM.

    A FILE is one XML document, or, where its name ends with .jsonl or .ndjson, a document a line:
    {"xml", "id", "timestamp", "revision"}, of which only "xml" must be there. - is standard input,
    of either kind. What was counted as accepted is safe; if it stops, it says how to go on.

    \b
    broker publish S story.xml
    broker publish S archive.jsonl --key archive-2026
    producer | broker publish S -
    """
    sender = Sender(service, stream, service.patience.seconds, skip)
    with Work("document", total=None if skip else _bytes_of(files), parts=True) as work:
        try:
            with if_stopped(lambda: console.print(sender.interrupted())):
                for documents in _batches(_documents(files, key, revision), skip):
                    sender.send(documents, work)
        except OSError as error:
            raise sender.failure(f"{error.filename or 'input'}: {error.strerror}") from None
    left_out = f", {skip:,} left out" if skip else ""
    console.print(f"{sender.count()}{left_out}")


def _bytes_of(files: Sequence[str]) -> int | None:
    """The size of all files; None if one is a pipe or standard input."""
    paths = [Path(name) for name in files]
    return sum(path.stat().st_size for path in paths) if all(map(Path.is_file, paths)) else None


# -- reading ---------------------------------------------------------------------------------


def _batches(documents: Iterator[Document], skip: int) -> Iterator[list[Document]]:
    """The documents of each request: several lines of JSON, or one XML document."""
    batch: list[Document] = []
    size = 0
    for number, document in enumerate(documents):
        if number < skip:
            continue
        full = len(batch) >= _MOST_LINES or size + len(document.data) > _MOST_BYTES
        if batch and (full or document.headers):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document.data)
        if document.headers:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _documents(files: Iterable[str], key: str | None, revision: bool) -> Iterator[Document]:
    for name in files:
        if name == "-":
            head: list[bytes] = []
            while not head or (head[-1] and not head[-1].strip()):
                head.append(sys.stdin.buffer.readline())
            if head[-1].lstrip(b"\xef\xbb\xbf \t").startswith(b"<"):
                data = b"".join(head) + sys.stdin.buffer.read()
                yield _xml(data, "standard input", key, revision)
            else:
                lines = chain(head, sys.stdin.buffer)
                yield from _lines(lines, "standard input", key, revision)
        elif Path(name).suffix in _LINES_SUFFIXES:
            with Path(name).open("rb") as file:
                yield from _lines(file, name, key, revision)
        elif (data := Path(name).read_bytes()).strip():
            yield _xml(data, name, key, revision)
        else:
            console.print(f"{name}: empty, so there is no document to publish")


def _xml(data: bytes, name: str, key: str | None, revision: bool) -> Document:
    id = str(uuid.uuid4()) if key is None else f"{key}/{Path(name).name}"
    headers = [("Document-Id", id.encode("utf-8", "surrogateescape"))]
    if revision:
        headers.append(("Document-Revision", b"true"))
    return Document(data, name, len(data), tuple(headers))


def _lines(file: Iterable[bytes], name: str, key: str | None, revision: bool) -> Iterator[Document]:
    """Each line as a document with an id. A line that is no JSON is sent unchanged, so that the
    service reports the error."""
    for number, line in enumerate(file, 1):
        data = line.strip(b"\r\n \t")
        if not data:
            continue
        try:
            entry = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict) and (entry.get("id") is None or revision):
            if entry.get("id") is None:
                entry["id"] = (
                    str(uuid.uuid4()) if key is None else f"{key}/{Path(name).name}:{number}"
                )
            if revision:
                entry["revision"] = True
            data = json.dumps(entry).encode()
        yield Document(data, f"{name}:{number}", len(line))
