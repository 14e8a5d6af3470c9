"""Each kept state can be opened, keeps its ids, and continues as recorded by the program that
created it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.states import pipeline
from tests.states.keep import HERE, KINDS, dumped, unpacked

_THINGS = 3
"""The level from which on the members of an object are what is said of one thing."""
VERSIONS = sorted(path.name for path in HERE.glob("version_*"))


THROUGH_SPARK = VERSIONS[0]
"""Whose state of `broker run` goes on through Spark, as it was made. Spark's own files have not
changed since; the others go on in this process, which takes a fifth of the time."""


def _kept(path: Path) -> Any:
    version, name = path.parent.name, path.name.removesuffix(".tar.xz")
    if name != "pipeline":
        return pytest.param(version, KINDS[name].go_on, name, id=f"{version}-{name}")
    if version == THROUGH_SPARK:
        marks = [pytest.mark.spark]
        return pytest.param(version, pipeline.go_on, name, id=f"{version}-spark", marks=marks)
    return pytest.param(
        version, partial(pipeline.go_on, through="local"), name, id=f"{version}-local"
    )


@pytest.mark.parametrize(
    ("version", "go_on", "name"), [_kept(path) for path in sorted(HERE.glob("*/*.xz"))]
)
def test_a_kept_state_goes_on(
    version: str, go_on: Callable[[Path, Any, Path], Any], name: str, tmp_path: Path
) -> None:
    folder = HERE / version
    made = json.loads((folder / f"{name}-made.json").read_text(encoding="utf-8"))
    wanted = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    state = unpacked(folder / f"{name}.tar.xz", tmp_path)
    found = json.loads(dumped(go_on(state, made, tmp_path / "on")))
    assert asked_for(found, wanted) == wanted


def asked_for(found: Any, wanted: Any, level: int = 0) -> Any:
    """What is found without what a later version says more of a thing: which things there are (the
    upper levels) is to be the same, and of each what was said of it."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = found.keys() if level < _THINGS else found.keys() & wanted.keys()
        return {name: asked_for(found[name], wanted.get(name), level + 1) for name in names}
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [asked_for(a, b, _THINGS) for a, b in zip(found, wanted, strict=True)]
    return found


def test_a_later_version_may_say_more_of_a_thing() -> None:
    wanted = {"then": {"log": {"m1": {"values": {"t": ["x"]}, "documents": [{"id": "d"}]}}}}
    found = {
        "then": {
            "log": {
                "m1": {"values": {"t": ["x"]}, "documents": [{"id": "d", "title": "T"}], "new": 1}
            }
        }
    }
    assert asked_for(found, wanted) == wanted
    for wrong in ('{"log": {}}', '{"log": {"m1": {}, "m2": {}}}', '{"log": {"m1": {}}, "more": 1}'):
        assert asked_for({"then": json.loads(wrong)}, wanted) != wanted


def test_each_version_has_each_kind() -> None:
    assert VERSIONS
    for version in VERSIONS:
        found = {path.name.removesuffix(".tar.xz") for path in (HERE / version).glob("*.xz")}
        assert found == KINDS.keys()
