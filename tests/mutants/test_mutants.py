"""Tests of the mutation operators, and that a failing test kills a mutant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import coverage
import pytest

from tests.mutants import operators
from tests.mutants.operators import Mutant
from tests.mutants.reach import Reach
from tests.mutants.running import ROOT

CHANGES = [
    ("x = a < b", "x = (a <= b)"),
    ("x = a is not b", "x = (a is b)"),
    ("x = a in b", "x = (a not in b)"),
    ("x = a and b", "x = (a or b)"),
    ("x = not a", "x = (a)"),
    ("x = a - b", "x = (a + b)"),
    ("x = -a", "x = (a)"),
    ("x = 7", "x = (8)"),
    ("x = True", "x = (False)"),
    ("x = a if b else c", "x = (c if b else a)"),
    ("x = [y for y in a if y]", "x = ([y for y in a if not y])"),
    ("x = f(a, b, c)", "x = (f(b, a, c))"),
    ("x = any(a)", "x = (all(a))"),
    ("x += a", "pass"),
    ("x += a", "x -= a"),
    ("x.y = a", "pass"),
    ("f(a)", "pass"),
    ("raise a", "pass"),
    ("del a", "pass"),
    ("if a: f", "if (not a): f"),
    ("while a: f", "while (not a): f"),
    ("for x in y: f", "for x in (()): f"),
    ("def f():\n    return a", "def f():\n    return None"),
    ("for x in y:\n    break", "for x in y:\n    continue"),
    ("x = f(\n    a < b,\n)", "x = f(\n    (a <= b),\n)"),
    ("x = (a <\n    b)\ny", "x = ((a <= b))\n\ny"),
    ("é = 'é' == b", "é = ('é' != b)"),
]


@pytest.mark.parametrize(("before", "after"), CHANGES, ids=[change[1] for change in CHANGES])
def test_the_mistakes(before: str, after: str) -> None:
    texts = [
        mutant.text(before.encode()).decode()
        for mutant in operators.mutants("f.py", before.encode())
    ]
    assert after in texts
    assert {text.count("\n") for text in texts} == {before.count("\n")}


@pytest.mark.parametrize(
    "text",
    [
        "'''A text.'''",
        "x: f(1, 2)",
        "if TYPE_CHECKING:\n    f(1, 2)",
        "x = 'text'",
        "x = f(a, a)",
        "x = f'{a + b}'",
    ],
)
def test_what_no_test_should_depend_on(text: str) -> None:
    assert operators.mutants("f.py", text.encode()) == []


def test_a_seed_draws_the_same_ones_and_each_of_them_once() -> None:
    drawn = operators.draw(ROOT, 7, 50)
    assert drawn == operators.draw(ROOT, 7, 50)
    assert drawn != operators.draw(ROOT, 8, 50)
    assert len(set(drawn)) == 50


def mutant(line: int) -> Mutant:
    return Mutant("feeds/f.py", 0, 1, "constant", "(2)", line, line, "1", "2")


def test_the_tests_of_a_line_of_its_function_and_of_its_file() -> None:
    source = "x = 1\ndef f():\n    a\n    b\n\ndef g():\n    c\n"
    lines = {"feeds/f.py": {3: frozenset({"slow", "quick"}), 7: frozenset({"other"})}}
    named = "tests/feeds/test_f.py::test_a_number"
    reach = Reach(lines, {"slow": 9.0, "quick": 0.1, "other": 2.0, named: 3.0, "none": 1.0})
    assert reach.tests(mutant(3), source) == ["quick", "slow"]
    assert reach.tests(mutant(4), source) == ["quick", "slow"]
    assert reach.tests(mutant(1), source) == ["quick", "other", named, "slow"]


def test_tests_run_in_steps_of_so_many_seconds() -> None:
    reach = Reach({}, {"a": 1.0, "b": 2.0, "c": 4.0, "d": 40.0, "e": 90.0})
    assert list(reach.batches("abcde", [5.0, 10.0, 60.0])) == [["a", "b"], ["c"], ["d"]]


def test_lines_that_were_recorded(tmp_path: Path) -> None:
    data = coverage.CoverageData(str(tmp_path / "1.coverage"))
    data.set_context("tests/test_f.py::test_it")
    data.add_lines({"/somewhere/feeds/f.py": [1, 2]})
    data.set_context("tests/test_f.py::test_that_fails")
    data.add_lines({"/somewhere/feeds/f.py": [2, 3]})
    data.write()
    (tmp_path / "1.json").write_text('{"tests/test_f.py::test_it": 0.5}')
    reach = Reach.read(tmp_path)
    assert reach.tests(mutant(2), "") == ["tests/test_f.py::test_it"]
    assert reach.lines["feeds/f.py"][3] == frozenset()


RUN = """
from pathlib import Path
from tests.mutants import operators
from tests.mutants.running import ROOT, Copy

path, tests = "feeds/fair_lock.py", ["tests/feeds/test_fair_lock.py"]
copy = Copy(Path({folder!r}) / "copy")
print("without:", copy.run(tests, seconds=1.0))
source = (ROOT / path).read_bytes()
mutant = next(m for m in operators.mutants(path, source) if m.before == "return True")
with copy.with_mutant(mutant):
    print("with:", copy.run(tests, seconds=1.0))
print("restored:", (copy.folder / path).read_bytes() == source)
"""


def test_a_mutant_is_made_in_a_copy_and_dies(tmp_path: Path) -> None:
    script = RUN.format(folder=str(tmp_path))
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    output = result.stdout.splitlines()
    assert output[0] == "without: ", result.stderr
    assert output[1].startswith("with: tests/feeds/test_fair_lock.py::")
    assert output[2] == "restored: True"
