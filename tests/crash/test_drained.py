"""SIGTERM under load: work in flight is finished, and an early end loses nothing."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from random import Random

from tests.crash.episode import Episode
from tests.crash.plain import Plain
from tests.crash.webhooks import SECRET, Webhooks

SEED = 11


def test_drained_in_the_middle_of_load(tmp_path: Path) -> None:
    random = Random(SEED)
    with Episode(tmp_path / "crash", SEED) as episode:
        episode.begin()
        for _ in range(3):
            assert not episode.served.exited(random.random())
            assert episode.served.stop() == 0, episode.served.tail()
            episode.check()
            episode.served.start()
        episode.quiet()
        found = episode.verdict()
        assert min(found["documents"], found["matches"]) > 0


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """While a receiver does not answer, the first waits for it, and the second does not."""
    with Plain(tmp_path / "service") as plain, Webhooks(SEED) as hooks:
        plain.served.start()
        plain.subscribe()
        body = {"kind": "webhook", "settings": {"url": f"{hooks.url}/slow", "secret": SECRET}}
        assert plain.served.http.put("/v1/channels/slow", json=body).is_success
        hooks.reliable = True
        hooks.hold = threading.Event()
        assert plain.post(range(5)) == 202
        plain.wait(lambda: hooks.held)
        plain.served.terminate()
        assert not plain.served.exited(1.0)
        plain.served.terminate()
        assert plain.served.exited(5.0)
        assert plain.served.code() == 128 + signal.SIGTERM
        hooks.hold.set()
        plain.served.start()
        plain.posted(range(5, 10))
        assert plain.found() == [*range(10)]
        plain.wait(lambda: len(hooks.boxes["slow"].got) == 10)
        assert [d["documents"][0]["id"] for d in hooks.boxes["slow"].got.values()] == [
            f"a{number}" for number in range(10)
        ]
        assert plain.served.stop() == 0
