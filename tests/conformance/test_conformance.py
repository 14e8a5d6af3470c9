"""XPath inside blocks, tested by the cases of two conformance suites; `report.txt` has the results.

The suites lie beside the repository (`cases.py`); without them these tests are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest
from lxml import etree

from tests.conformance import cases, xpath
from tests.conformance.evaluate import Outcome, Trial, judge, run, trial
from tests.conftest import Golden
from xscl.stage1.document import parse_document

REPORT = Path(__file__).parent / "report.txt"

SUITES: dict[str, Callable[[], Iterable[cases.Case]]] = {
    "Jaxen, downward axes": lambda: (c for c in cases.jaxen() if downward(c)),
    "Jaxen, others": lambda: (c for c in cases.jaxen() if not downward(c)),
    "libxml2, paths": cases.libxml2_paths,
    "libxml2, values": cases.libxml2_values,
    "libxml2, patterns": cases.libxml2_patterns,
}
CATEGORIES = ("passed", "refused", "by design", "no XPath", "failed")
DOWNWARD = frozenset(["attribute", "child", "descendant", "descendant-or-self", "self"])

pytestmark = pytest.mark.skipif(
    not (cases.JAXEN.exists() and cases.LIBXML2.exists()),
    reason="the conformance suites are not there: ../shared/data/xpath_jaxen and xml_libxml2",
)


def axes(expr: xpath.Expr) -> set[str]:
    found = {step.axis for step in expr.steps} if isinstance(expr, xpath.Path) else set()
    return found.union(*map(axes, xpath.parts(expr)))


def downward(case: cases.Case) -> bool:
    try:
        return axes(xpath.parse(case.text)) <= DOWNWARD
    except xpath.NotXPath:
        return False


@cache
def outcomes(suite: str) -> list[tuple[Trial, Outcome]]:
    trials = [trial(case) for case in SUITES[suite]()]
    run(trials)
    return [(each, judge(each)) for each in trials]


@pytest.mark.parametrize("suite", SUITES)
def test_no_case_is_answered_wrongly_or_refused_without_its_reason(suite: str) -> None:
    failed = [f"{t.case}\n    {o.detail}" for t, o in outcomes(suite) if o.category == "failed"]
    assert not failed, "\n".join(failed)


def test_the_report(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    text = report()
    with capsys.disabled():
        print(f"\n{text}")
    golden(REPORT, text)


def report() -> str:
    found = {suite: outcomes(suite) for suite in SUITES}
    counts = {suite: Counter(o.category for _, o in each) for suite, each in found.items()}
    counts["all"] = sum(counts.values(), Counter())
    lines = [
        "XPath inside blocks: the cases of Jaxen and of libxml2, run through the broker.",
        "",
        "passed     the broker gives what the suite says and, node by node, what lxml gives",
        "refused    outside the language, by an error that names what is missing",
        "by design  the language means something else, as said below",
        "no XPath   no XPath 1.0 either, and refused",
        "",
        f"{'':22}" + "".join(f"{category:>11}" for category in (*CATEGORIES, "cases")),
    ]
    for suite, count in counts.items():
        numbers = [*(count[category] for category in CATEGORIES), count.total()]
        lines.append(f"{suite:22}" + "".join(f"{number:11}" for number in numbers))
    everything = [pair for each in found.values() for pair in each]
    reasons = Counter(o.detail for _, o in everything if o.category == "refused")
    lines += ["", "Refused, and what for:", ""]
    lines += [f"{count:6}  {reason}" for reason, count in sorted_counts(reasons)]
    lines += ["", "Different by design:", ""]
    lines += [f"{t.case}\n        {o.detail}" for t, o in everything if o.category == "by design"]
    failed = [f"{t.case}\n        {o.detail}" for t, o in everything if o.category == "failed"]
    if failed:
        lines += ["", "Failed:", "", *failed]
    return "\n".join(lines) + "\n"


def sorted_counts(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def test_the_suites_are_read_in_full() -> None:
    """Nothing is lost between the files and the table."""
    text = (cases.JAXEN / "cases.jsonl").read_text(encoding="utf-8")
    jaxen = [s for s in SUITES if s.startswith("Jaxen")]
    assert sum(len(outcomes(suite)) for suite in jaxen) == len(text.splitlines())
    dumps = (cases.LIBXML2 / "result/XPath").glob("[te]*/*")
    expressions = sum(dump.read_text(encoding="utf-8").count("Expression: ") for dump in dumps)
    assert len(outcomes("libxml2, paths")) + len(outcomes("libxml2, values")) == expressions


def test_expressions_spelt_out_mean_what_they_meant() -> None:
    """The reader of expressions is right where lxml gives the same for what it makes of them."""
    compared = 0
    for case in [*cases.jaxen(), *cases.libxml2_paths()]:
        if isinstance(case.expected, cases.Wrong):
            continue
        root = parse_document(case.document.read_bytes())
        spelt = xpath.spelt(xpath.parse(case.text))
        try:
            found = root.xpath(case.text, namespaces=dict(case.prefixes) or None)
        except etree.XPathError:
            continue  # what only the other engine knows: variables, document(), lower-case()
        again = root.xpath(spelt, namespaces=dict(case.prefixes) or None)
        assert repr(again) == repr(found), (case.text, spelt)
        compared += 1
    assert compared > 250
