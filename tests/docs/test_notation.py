"""The names in docs/notation.md exist."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

from broker.explain import STAGES
from broker.query.conjunctive import parameter_table
from broker.state.store import Store
from tests.docs.markdown import PAGES, ROOT

PAGE = ROOT / "docs" / "notation.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:xscl|broker|feeds)(?:\.\w+)+)`", TEXT)))


def resolve(name: str) -> Any:
    module, _, attribute = name.partition(".")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        module = f"{module}.{part}"
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name: str) -> None:
    assert resolve(name).__doc__ or name.isupper(), "a name without a docstring"


@pytest.mark.parametrize("package", ["xscl", "broker"])
def test_the_way_through_a_package_names_what_there_is(package: str) -> None:
    text = importlib.import_module(package).__doc__ or ""
    names = re.findall(r"(?:\| |-- |, |\()((?:\w+\.)+\w+)", text)
    assert len(names) >= 6
    for name in names:
        resolve(name if name.startswith("xscl.") else f"{package}.{name}")


def test_a_name_that_does_not_exist_is_seen() -> None:
    assert len(NAMES) > 15
    with pytest.raises(AttributeError):
        resolve("broker.query.conjunctive.conjunctive_queries")


def test_tables_and_stages_exist() -> None:
    assert parameter_table(0) in TEXT
    store = Store(None)
    tables = {name for (name,) in store.rows("SELECT table_name FROM duckdb_tables()")}
    assert {"rl", "documents"} <= tables
    assert set(re.findall(r"--stage (\w+)", TEXT)) <= STAGES.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages(page: Any) -> None:
    """Files that a page links to are there, and the headings within them too."""
    text = page.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text):
        target = page.parent / path if path else page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"(?m)^#+ (.+)$", target.read_text(encoding="utf-8"))
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
