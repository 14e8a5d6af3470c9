"""Every diagnostic as it is shown: `errors/NAME.xscl` and `errors/NAME.txt`.

A new case is a new .xscl file; `pytest --rewrite` writes what is said about it, to be read.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Golden
from xscl import CODES, Diagnostic, XsclError, check, parse
from xscl.codes import WARNINGS
from xscl.syntax import foreign, foreign_patterns

CASES = sorted((Path(__file__).parent / "errors").glob("*.xscl"))


def diagnostics(case: Path) -> tuple[Diagnostic, ...]:
    # Bytes, so that no newline is translated on the way.
    text = case.read_bytes().decode("utf-8")
    try:
        return check([parse(text, case.name)]).warnings
    except XsclError as error:
        return error.diagnostics


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_diagnostics(case: Path, golden: Golden) -> None:
    found = diagnostics(case)
    assert found, "nothing was said about this case"
    golden(case.with_suffix(".txt"), "\n\n".join(each.render() for each in found) + "\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_case_shows_what_it_is_named_after(case: Path) -> None:
    codes = {each.code for each in diagnostics(case)}
    assert any(case.stem.startswith(code) for code in codes)


def test_every_code_has_a_case() -> None:
    shown = {each.code for case in CASES for each in diagnostics(case)}
    assert shown == set(CODES)


def test_warnings_are_the_codes_that_say_so() -> None:
    for case in CASES:
        for each in diagnostics(case):
            assert (each.severity == "warning") == (each.code in WARNINGS), each.code


def test_every_hint_for_foreign_words_has_a_case() -> None:
    habits = (foreign.PATTERN, foreign.PREDICATE, foreign.FILTER, foreign.CLAUSE)
    tables = [table for each in habits for table in (each.found, each.before)]
    tables += [foreign.SELECT, foreign.VALUES, foreign.FUNCTIONS, foreign.AXES]
    tables += [foreign_patterns.FUNCTIONS, foreign_patterns.VALUES, foreign_patterns.UNITS]
    known = {hint for table in tables for hint in table.values()}
    known |= {hint for _, hint in foreign_patterns.FORMS}
    shown = {each.hint for case in CASES for each in diagnostics(case)}
    assert not known - shown


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_places_lie_in_the_text(case: Path) -> None:
    size = len(case.read_bytes().decode("utf-8"))
    for each in diagnostics(case):
        for span in (each.span, *(place for _, place in each.also)):
            assert 0 <= span.start <= span.end <= size


@pytest.mark.parametrize(
    "again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy]
)
def test_an_error_reaches_another_process_as_it_is(again: Callable[[XsclError], XsclError]) -> None:
    with pytest.raises(XsclError) as raised:
        check([parse("S//item->a[; T//b FOLLOWED BY", "a.xscl")])
    copied = again(raised.value)
    assert copied.diagnostics == raised.value.diagnostics
    assert str(copied) == str(raised.value)
