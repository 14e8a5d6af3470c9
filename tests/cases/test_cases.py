"""Runs every folder beside this file, a case each, with the engine in several ways and with the
oracle."""

from __future__ import annotations

import pytest

from broker import Broker
from tests.cases.reading import CaseFiles, cases
from tests.cases.running import Way, check, renewed, ways
from tests.conftest import Golden
from xscl import XsclError

_RUN = [case for case in cases() if "error" not in case.expected]
_REFUSED = [case for case in cases() if "error" in case.expected]


def _name(case: CaseFiles) -> str:
    return case.name


@pytest.mark.parametrize("case", _RUN, ids=_name)
def test_a_case_is_written_as_all_are(case: CaseFiles, golden: Golden) -> None:
    """With --rewrite, and matches as the oracle has them."""
    golden(case.folder / "expected.json", renewed(case))


_WAYS = [
    pytest.param(case, way, id=f"{case.name}-{way.name}") for case in _RUN for way in ways(case)
]


@pytest.mark.parametrize(("case", "way"), _WAYS)
def test_a_case_matches(case: CaseFiles, way: Way) -> None:
    check(case, way)


@pytest.mark.parametrize("case", _RUN, ids=_name)
def test_a_case_is_accepted_with_its_warnings(case: CaseFiles) -> None:
    warnings = sorted(warning.code for warning in case.program.warnings)
    assert warnings == sorted(case.expected.get("warnings", warnings))


@pytest.mark.parametrize("case", _REFUSED, ids=_name)
def test_a_case_is_refused(case: CaseFiles) -> None:
    with Broker() as broker, pytest.raises(XsclError) as caught:
        broker.subscribe(case.query)
    assert {each.code for each in caught.value.diagnostics} == {case.expected["error"]}


@pytest.mark.parametrize("case", cases(), ids=_name)
def test_a_case_is_complete(case: CaseFiles) -> None:
    names = {"query.xscl", "documents.txt", "expected.json"}
    found = {path.name for path in case.folder.iterdir()}
    assert found <= names, "a file that nobody reads"
    assert case.expected.keys() >= {"why"}
    seen: set[tuple[str, str]] = set()
    repeated = []
    for document in case.documents:
        if document.key in seen and not document.revision:
            repeated.append(document.id)
        seen.add(document.key)
    assert repeated == case.expected.get("dropped", [])
