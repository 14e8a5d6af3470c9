"""Each kept state opens, keeps its ids, and goes on as the program said that made it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.states import library, service
from tests.states.keep import HERE, dumped, unpacked

VERSIONS = sorted(path.name for path in HERE.glob("version_*"))


def test_there_are_states() -> None:
    assert VERSIONS


@pytest.mark.parametrize("kind", [service, library], ids=["service", "library"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_state_goes_on(version: str, kind: object, tmp_path: Path) -> None:
    assert kind in (service, library)
    name = "service" if kind is service else "library"
    folder = HERE / version
    made = json.loads((folder / f"{name}-made.json").read_text(encoding="utf-8"))
    wanted = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    state = unpacked(folder / f"{name}.tar.xz", tmp_path)
    go_on = service.go_on if kind is service else library.go_on
    found = json.loads(dumped(go_on(state, made, tmp_path / "on")))
    assert found == wanted
