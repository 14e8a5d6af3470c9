"""The long run of bombs: `python -m tests.bombs.long --seconds 600 [--seed N]`.

`broker serve` has honest subscriptions, and in each round some bombs are subscribed and their
documents published among honest ones. It may take 1.5 GB of memory: beyond that it is killed, as a
machine would do it, and started again. In the end of each round every honest match was found, and
each bomb is named: in a dead letter, or suspended. A bomb that is no bomb after all has matches.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.bombs.generate import Bomb, bomb
from tests.service.process import Process
from tests.waiting import PATIENCE, pause, until

MEMORY = 1_500_000_000
"""Bytes beyond which the process is killed."""

_HOURS = 4 * 3_600.0
"""Seconds between the documents of two rounds."""

HONEST = """
pair: SELECT k FROM S//*[./k->k] FOLLOWED BY {k = l, 1 h} S//*[./k->l];
each: SELECT k FROM S//*[./k->k];
next: S//h[./k->k] FOLLOWED BY {k = l} S//h[./k->l] WITHIN 1 h;
sums: SELECT k FROM S//h[./k->k] FOLLOWED BY {k = l AND k + l > 0, 1 h} S//h[./k->l];
"""

SETTINGS = """
[limits]
time = "{time}"
memory = "800 MB"
combinations = 300

[intake]
min_free = "1 MB"

[time]
lateness = "0 s"
"""


class Served:
    """A service that is started again whenever it dies, and killed when it takes too much."""

    def __init__(self, state: Path, limit: str) -> None:
        self.state = state
        self.deaths = 0
        self.largest = 0
        self._config = state.with_name("broker.toml")
        self._config.write_text(SETTINGS.format(time=limit))
        self._stop = threading.Event()
        self.process = self._started()
        self._watch = threading.Thread(target=self._loop, daemon=True)
        self._watch.start()

    def _started(self) -> Process:
        return Process(self.state, "--config", self._config).__enter__()

    def _loop(self) -> None:
        while not self._stop.wait(0.05):
            try:
                text = Path(f"/proc/{self.process.process.pid}/statm").read_text()
            except OSError:
                text = ""
            size = int(text.split()[1]) * 4_096 if text else 0
            self.largest = max(self.largest, size)
            if size > MEMORY:
                self.process.kill()
            if self.process.process.poll() is not None and not self._stop.is_set():
                self.deaths += 1
                self.process = self._started()

    def close(self) -> int:
        """End it; its exit code."""
        self._stop.set()
        self._watch.join(PATIENCE)
        return self.process.terminate()

    def asked(self, path: str, **query: str | int) -> httpx.Response:
        """The answer to GET, of whichever process there is."""
        found: httpx.Response | None = None

        def answered() -> bool:
            nonlocal found
            try:
                found = self.process.client.get(path, params=query)
            except httpx.TransportError:
                return False
            return found.status_code < 500

        until(answered)
        assert found is not None
        return found

    def sent(self, method: str, path: str, content: str, kind: str, key: str = "") -> None:
        """Send something that may be sent again."""

        def answered() -> bool:
            headers = {"Content-Type": kind, **({"Idempotency-Key": key} if key else {})}
            try:
                answer = self.process.client.request(
                    method, path, content=content.encode(), headers=headers
                )
            except httpx.TransportError:
                return False
            assert answer.status_code < 500 or answer.status_code == 503, answer.text
            assert answer.status_code < 400 or answer.status_code >= 500, answer.text
            return answer.status_code < 400

        until(answered)

    def backlog(self) -> int:
        found = self.asked("/v1/status").json()
        return int(found["intake"]["backlog"])

    def is_idle(self) -> bool:
        """Whether no document waits. To ask costs it something, so this is not too often."""
        pause(0.1)
        return self.backlog() == 0

    def letters(self) -> list[dict[str, Any]]:
        """All dead letters."""
        found: list[dict[str, Any]] = []
        after = 0
        while page := self.asked("/v1/dead-letters", after=after).json():
            found += page
            after = page[-1]["number"]
        return found

    def matches(self, id: str) -> int:
        """How many matches a subscription has, up to 20,000."""
        count, after = 0, "0"
        while count < 20_000:
            reply = self.asked("/v1/matches", subscription=id, after=after, limit=1_000)
            lines = reply.text.splitlines()
            if not lines:
                break
            count += len(lines)
            after = reply.headers["next-cursor"]
        return count


class Rounds:
    """Documents are numbered through all rounds; each two have a `k` in common."""

    def __init__(self, served: Served, seed: int) -> None:
        self.served = served
        self.r = Random(seed)
        self.seed = seed
        self.count = 0
        self.named: Counter[str] = Counter()
        self.duds: Counter[str] = Counter()
        self._later = 0.0
        """Seconds by which documents are later than one a minute."""
        self._refused: set[str] = set()
        """The ids of documents that are too much by themselves."""

    def refused(self, name: str, inside: str, prolog: str) -> dict[str, object]:
        """A document that is too much by itself."""
        id = f"refused-{len(self._refused)}"
        self._refused.add(id)
        xml = f"{prolog.replace('DOCTYPE r', f'DOCTYPE {name}')}<{name}><b>{inside}</b></{name}>"
        return {"id": id, "timestamp": 60.0 * self.count + self._later, "xml": xml}

    def document(self, name: str = "h", inside: str = "") -> dict[str, object]:
        n = self.count
        self.count += 1
        xml = f"<{name}><k>{n // 2}</k>{f'<b>{inside}</b>' if name != 'h' else ''}</{name}>"
        return {"id": str(n), "timestamp": 60.0 * n + self._later, "xml": xml}

    def subscribe(self, text: str) -> None:
        body = json.dumps({"text": text})
        self.served.sent("POST", "/v1/subscriptions", body, "application/json")

    def run(self, bombs: list[Bomb]) -> None:
        """One round. Raises AssertionError."""
        served = self.served
        for each in bombs:
            self.subscribe(each.query)
        documents: list[dict[str, object]] = []
        insides = [(each, inside) for each in bombs for inside in each.inside]
        self.r.shuffle(insides)
        for each, inside in insides:
            for _ in range(self.r.choice([0, 0, 0, 1])):
                documents += [self.document(), self.document()]
            if not self.count % 2:
                documents.append(self.document("o"))
            if each.refused:
                documents.append(self.refused(each.name, inside, each.prolog))
            else:
                documents.append(self.document(each.name, inside))
        if self.count % 2:
            documents.append(self.document("o"))
        # What waits for some hours is decided by the last two.
        self._later += _HOURS
        documents += [self.document(), self.document()]
        self._publish(documents)
        until(lambda: served.is_idle(), lambda: f"{served.backlog()} documents wait")
        letters = served.letters()
        for each in bombs:
            self._judge(each, letters)
            # Those that read a stream go before those that publish it.
            for id in reversed(each.ids):
                served.sent("DELETE", f"/v1/subscriptions/{id}?pending=drop", "", "text/plain")
        told = " ".join([letter["reason"] for letter in letters])
        assert "the engine failed" not in told, told
        self._check()

    def _judge(self, each: Bomb, letters: list[dict[str, Any]]) -> None:
        """Count a bomb as named, or as none. Raises AssertionError."""
        told = " ".join([letter["reason"] for letter in letters])
        served = self.served
        if each.refused:
            named = any(letter["id"] in self._refused for letter in letters)
        else:
            named = any(f"{id} " in told or f"{id}," in told for id in each.ids) or any(
                served.asked(f"/v1/subscriptions/{id}").json()["status"] == "suspended"
                for id in each.ids
            )
        if named:
            self.named[each.kind] += 1
            return
        found = sum([served.matches(id) for id in each.ids])
        assert found, f"{each.ids} are not named, and have no match: {each.query}"
        self.duds[each.kind] += 1

    def _publish(self, documents: list[dict[str, object]]) -> None:
        part: list[str] = []
        for document in [*documents, None]:
            if part and (document is None or sum(map(len, part)) > 4_000_000 or len(part) >= 200):
                text, key = "\n".join(part), f"{self.seed}-{self.count}-{len(part)}-{id(part)}"
                path = "/v1/streams/S/documents"
                self.served.sent("POST", path, text, "application/x-ndjson", key)
                part = []
            if document is not None:
                part.append(json.dumps(document))

    def _check(self) -> None:
        """Every honest match is there, once."""
        for id, most in (("each", self.count), ("pair", self.count // 2)):
            found = self.all_of(id)
            assert len(found) == len(set(found)), f"matches of {id} came twice"
            assert len(found) == most, f"{len(found)} matches of {id}, not {most}"

    def all_of(self, id: str) -> list[str]:
        found: list[str] = []
        after = "0"
        while True:
            reply = self.served.asked("/v1/matches", subscription=id, after=after, limit=1_000)
            lines = reply.text.splitlines()
            if not lines:
                return found
            found += [json.loads(line)["id"] for line in lines]
            after = reply.headers["next-cursor"]


def run(
    state: Path,
    seconds: float,
    seed: int,
    *,
    each: int = 6,
    limit: str = "700 ms",
    least: tuple[int, int] = (0, 0),
) -> str:
    """Rounds of `each` bombs until the time is over; says what came of them. Raises AssertionError,
    also where fewer bombs, or kinds of them, were named than `least`."""
    served = Served(state, limit)
    rounds = Rounds(served, seed)
    rounds.subscribe(HONEST)
    end = time.monotonic() + seconds
    number = seed % 1_000 * 1_000
    while time.monotonic() < end:
        rounds.run([bomb(rounds.r, number + n) for n in range(each)])
        number += each
        print(f"{rounds.named.total()} bombs named, {rounds.count:,} documents", flush=True)
    assert served.close() == 0
    duds = ", ".join(f"{count} of {kind}" for kind, count in sorted(rounds.duds.items()))
    said = (
        f"{rounds.named.total()} bombs of {len(rounds.named)} kinds set aside and named,"
        f" {rounds.duds.total()} were none ({duds or '-'}); {rounds.count:,} documents with every"
        f" honest match; {served.deaths} deaths of memory, {served.largest // 1_000_000:,} MB at most"
    )
    assert rounds.named.total() >= least[0], said
    assert len(rounds.named) >= least[1], said
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bombs-") as directory:
        # The bombs that were reported at first, and fifty more.
        least = (56, 40) if options.seconds >= 600 else (0, 0)
        state = Path(directory) / "state"
        print(run(state, options.seconds, options.seed, least=least), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
