"""The rules of the architecture page hold: what may import what (`tests/allowed_imports.py`).

A *room* is a folder, or a module that stands in `broker/` or `xscl/` itself. Imports of a room go
down, so there is no circle between rooms, and none between files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

from tests.allowed_imports import LIBRARIES, MAY_IMPORT, ONLY_IN

ROOT = Path(__file__).parent.parent
PACKAGES = ("xscl", "feeds", "broker")


def _modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = list(file.relative_to(ROOT).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


MODULES = _modules()
_FOLDERS = {name for name, file in MODULES.items() if file.name == "__init__.py"}


def room(module: str) -> str:
    """The room of a module."""
    if module in _FOLDERS:
        return module
    parent = module.rpartition(".")[0]
    return module if parent in ("broker", "xscl") else parent


def imports(file: Path) -> Iterator[str]:
    """What a file imports, as full names; a name out of a module is that module."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module or ""


@cache
def all_imports() -> Mapping[str, set[str]]:
    """What each module imports. Not made when tests are collected, which every process does."""
    return {module: set(imports(file)) for module, file in MODULES.items()}


def _allowed(target: str, allowed: tuple[str, ...]) -> bool:
    return target in allowed or ("xscl" in allowed and target.split(".")[0] == "xscl")


def test_every_room_imports_what_its_rule_says_and_every_rule_is_needed() -> None:
    found: dict[str, set[str]] = {}
    for module, targets in all_imports().items():
        own = found.setdefault(room(module), set())
        own |= {room(target) for target in targets if target in MODULES} - {room(module)}
    wrong = [
        f"{one} imports {target}"
        for one, targets in found.items()
        for target in sorted(targets)
        if not _allowed(target, MAY_IMPORT.get(one, ()))
    ]
    assert not wrong
    idle = [
        f"{one} does not import {target}"
        for one, targets in MAY_IMPORT.items()
        for target in targets
        if not any(each == target or each.startswith(f"{target}.") for each in found[one])
    ]
    assert not idle, "the rules are wider than the house"


def _circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        return list(circle.args[1])
    return []


def test_no_circle_between_rooms() -> None:
    assert not _circle({one: set(targets) - {"xscl"} for one, targets in MAY_IMPORT.items()})


def test_no_circle_between_files() -> None:
    assert not _circle(
        {m: {t for t in ts if t in MODULES and t != m} for m, ts in all_imports().items()}
    )


@pytest.mark.parametrize("package", sorted(LIBRARIES))
def test_libraries_of_a_room(package: str) -> None:
    import sys

    wrong = [
        f"{module} imports {name}"
        for module, targets in all_imports().items()
        if module == package or module.startswith(f"{package}.")
        for name in sorted({target.split(".")[0] for target in targets})
        if name not in sys.stdlib_module_names
        and name not in PACKAGES
        and name not in LIBRARIES[package]
    ]
    assert not wrong


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_libraries_that_few_rooms_import(library: str) -> None:
    wrong = [
        module
        for module, targets in all_imports().items()
        if any(target.split(".")[0] == library for target in targets)
        and not module.startswith(ONLY_IN[library])
    ]
    assert not wrong


def test_the_match_relations_have_one_owner() -> None:
    """Generated queries name `rl` as theirs; all other SQL over it and `documents` is the owner's
    and that of its parts."""
    naming = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN|TABLE|EXISTS)\s+(?:rl|documents)\b")
    naming_module = [
        module
        for module, file in MODULES.items()
        if module.startswith("broker.")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and naming.search(str(node.value))
    ]
    owners = {"relations", "kept_documents", "queried_relations", "migrations", "stream_counts"}
    owners |= {"logged_documents", "witness_rows"}
    assert set(naming_module) == {f"broker.state.{owner}" for owner in owners}


def test_the_language_has_no_clock_and_nobody_imports_the_tests() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, targets in all_imports().items()
        for target in targets
        if target.split(".")[0] in {"tests", "bench"}
        or (target == "time" and module.startswith("xscl"))
    ]
    assert not wrong


def test_no_file_of_feeds_has_the_name_of_one_of_the_broker() -> None:
    """Else a name in a trace or an editor says nothing."""
    names = {
        package: {file.name for module, file in MODULES.items() if module.startswith(f"{package}.")}
        for package in ("feeds", "broker")
    }
    assert names["feeds"] & names["broker"] <= {"__init__.py"}


def test_every_room_is_in_the_table_of_the_architecture_page() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:xscl|feeds|broker)/?[a-z0-9_/]*)(?:\.py)?`", _table(page)))
    assert {name.rstrip("/").replace("/", ".") for name in named} >= MAY_IMPORT.keys() - {"broker"}


def _table(page: str) -> str:
    _, _, rest = page.partition("| place | owns |")
    return rest.partition("\n\n")[0]


@pytest.mark.parametrize("package", ["broker", "xscl"])
def test_the_names_on_a_door_are_those_of_today(package: str) -> None:
    """The docstrings of both packages are maps; each dotted name on them is a place."""
    module = import_module(package)
    names = set(re.findall(r"\b[a-z][a-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)+", module.__doc__ or ""))
    assert len(names) > 10
    of_example = {"broker.process", "broker.subscribe"}  # where `broker` is an object
    wrong = [name for name in sorted(names - of_example) if not _is_there(package, name)]
    assert not wrong


def _is_there(package: str, name: str) -> bool:
    """Whether it is a module of the package, of any, or something in one."""
    for full in (f"{package}.{name}", name):
        module, rest = full, ""
        while module:
            if module in MODULES:
                found: object = import_module(module)
                for part in filter(None, rest.split(".")):
                    found = getattr(found, part, None)
                if found is not None:
                    return True
                break
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
    return False
