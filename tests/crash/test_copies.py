"""A backup made under load becomes a service that continues and finds the same matches."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from tests.command import run
from tests.crash.actors import Accepted, Caller, Publisher
from tests.crash.episode import Episode
from tests.crash.process import Served
from tests.crash.verdict import judge
from tests.crash.world import Doc

SEED = 21


def test_a_backup_under_load_goes_on(tmp_path: Path) -> None:
    """The publishers send again what the copy does not know, which is harmless; then the copy has
    found all that it should, each match once."""
    copy = tmp_path / "copy"
    with Episode(tmp_path / "crash", SEED) as episode:
        served = episode.served
        episode.begin()
        episode.wait(lambda: len(episode.accepted.docs) > 30, "nobody publishes")
        # Who changes subscriptions goes home before, so that we know which are in the copy.
        (desk,) = (actor for actor in episode.producers if actor.name == "desk")
        desk.stop.set()
        desk.join()
        Caller(served).json("POST", "/v1/backup", json={"directory": str(copy)})
        known = deepcopy(episode.desk.now)
        at_copy = len(episode.accepted.docs)
        episode.wait(lambda: len(episode.accepted.docs) > at_copy + 10, "nobody publishes")
        episode.quiet()
        episode.verdict()
        # For those who have got everything, the copy's log is another one.
        episode.leave()
        episode.hooks.boxes.clear()
        restored = tmp_path / "crash" / "restored"
        _restore(copy, restored)
        served.state.rename(tmp_path / "before")
        restored.rename(served.state)
        served.start()
        # What has gone over its limit since may do so again, at another document.
        episode.desk.now = known
        episode.desk.audit()
        again = Publisher(served, episode.world, episode.accepted, "again", 0.0)
        docs = list(episode.accepted.docs.values())
        for part in _parts(docs):
            again.post(part)
        episode.feeds.finish()
        episode.wait(episode.feeds.finished, "the feeds were not fetched")
        episode.wait(lambda: _idle(served), "not everything is matched")
        episode.desk.audit()
        # When what was accepted again is not when it was told first.
        evidence = replace(episode.evidence(), accepted=Accepted(episode.accepted.docs))
        found = judge(evidence)
        assert found["matches"] > 20


def _idle(served: Served) -> bool:
    status = served.get("/v1/status")
    engine = status["engine"]  # none where the engine has been busy ever since
    return bool(engine and status["intake"]["backlog"] == engine["outbox"] == 0)


def _parts(docs: Sequence[Doc]) -> list[list[Doc]]:
    """In requests of one stream."""
    streams = sorted({doc.streams[0] for doc in docs})
    return [[doc for doc in docs if doc.streams[0] == stream] for stream in streams]


def _restore(copy: Path, state: Path) -> None:
    result = run(("restore", copy, "--state", state))
    assert result.returncode == 0, result.stderr
