"""The tables of the language reference, compared with the code and run as examples."""

from __future__ import annotations

import ast
import re

import pytest
from lxml import etree

from broker import Document
from feeds.item import Item
from tests.docs.markdown import ROOT, Fence, Table, code, codes, section, tables
from tests.docs.running import check_all, compile_all, matched, read_documents, run, selected
from xscl import CODES, XsclError
from xscl.codes import WARNINGS
from xscl.functions.nodes import NODE_FUNCTIONS
from xscl.functions.table import FUNCTIONS
from xscl.syntax.durations import UNITS
from xscl.syntax.parser_braces import RESERVED

PAGE = ROOT / "docs" / "language.md"
ANY = Document("d", xml="<a/>")


def table(*header: str) -> Table:
    (only,) = tables(PAGE, *header)
    return only


def rows(*header: str) -> list[object]:
    found = [row for each in tables(PAGE, *header) for row in each.rows]
    return [pytest.param(*row, id=codes(row[0])[0] if codes(row[0]) else None) for row in found]


def documents(heading: str) -> list[Document]:
    """Of the first block of documents under a heading."""
    text = next(
        p.text for p in section(PAGE, heading) if isinstance(p, Fence) if p.language == "xml"
    )
    return read_documents(text)


# -- blocks and filters ----------------------------------------------------------------------


@pytest.mark.parametrize(("block", "selects", "note"), rows("block", "selects", ""))
def test_blocks(block: str, selects: str, note: str) -> None:
    (document,) = documents("Blocks")
    assert selected(code(block), document) == codes(selects)


@pytest.mark.parametrize(("filtered", "holds", "note"), rows("filter", "holds for", ""))
def test_filters(filtered: str, holds: str, note: str) -> None:
    found = {match.documents[0].id for match in run(code(filtered), documents("Filters"))[0]}
    assert [d.id for d in documents("Filters") if d.id in found] == codes(holds)


def test_the_value_of_an_element() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"`(S//\w+)` has the value `([^`]+)`", text)
    assert found is not None
    (document,) = documents("Blocks")
    assert matched(f"{found[1]}[. = '{found[2]}']", document)


def test_feed_items_have_the_children_that_the_page_names() -> None:
    item = Item(
        *("http://example.org/feed", "A", "1", "1"),
        timestamp=0,
        dated=True,
        item_url="u",
        title="t",
        authors=("a",),
        categories=("c",),
        description="d",
        content="c",
        enclosures=("e",),
    )
    names = [etree.QName(child).localname for child in etree.fromstring(item.to_xml())]
    shown = next(
        part.text
        for part in section(PAGE, "Blocks")
        if isinstance(part, Fence) and "channel_url" in part.text
    )
    assert re.findall(r"\[\./(\w+)\]", shown) == names
    assert matched(shown, Document("d", xml=item.to_xml()))


# -- functions and comparisons ---------------------------------------------------------------


def test_every_function_is_in_the_table() -> None:
    shown = [
        code(row[0]).partition("(")[0] for row in table("function", "gives", "for example").rows
    ]
    assert sorted(shown) == sorted(FUNCTIONS)


@pytest.mark.parametrize(("function", "gives", "example"), rows("function", "gives", "for example"))
def test_functions(function: str, gives: str, example: str) -> None:
    name, _, rest = code(function).rstrip(")").partition("(")
    arguments = len(rest.removesuffix(", …").split(", "))
    most = FUNCTIONS[name].most
    assert arguments == most or (most is None and rest.endswith("…"))
    holds(code(example), True)
    assert name in example


FILTER_FUNCTIONS = ("function of filters", "gives", "for example")


def test_every_function_of_filters_is_in_its_table() -> None:
    shown = [code(row[0]).partition("(")[0] for row in table(*FILTER_FUNCTIONS).rows]
    assert sorted(shown) == sorted(NODE_FUNCTIONS)


@pytest.mark.parametrize(("function", "gives", "example"), rows(*FILTER_FUNCTIONS))
def test_functions_of_filters(function: str, gives: str, example: str) -> None:
    assert code(function).partition("(")[0] in example
    assert matched(code(example), ANY)


@pytest.mark.parametrize(("comparison", "answer"), rows("comparison", ""))
def test_comparisons(comparison: str, answer: str) -> None:
    assert answer in ("yes", "no")
    holds(code(comparison), answer == "yes")


def holds(condition: str, truth: bool) -> None:
    """As a filter, as a predicate on one document, and as a residual, which SQL decides."""
    queries = {
        "filter": f"S/*[{condition}]",
        "predicate": f"S/*->x WHERE {condition}",
        "not-filter": f"S/*[not({condition})]",
        "not-predicate": f"S/*->x WHERE NOT ({condition})",
    }
    text = "; ".join(f"{name}: {query}" for name, query in queries.items())
    found = {match.query for match in run(text, [ANY])[0]}
    assert found == {name for name in queries if name.startswith("not-") is not truth}


def test_windows() -> None:
    shown = set()
    for window, lasts in table("window", "lasts").rows:
        compile_all(f"LET week = 7 days; S//a WITHIN {code(window)}")
        shown.update(codes(lasts))
    assert shown & set(UNITS) == set(UNITS)


# -- errors ----------------------------------------------------------------------------------

CODE_TABLES = tables(PAGE, "code", "", "for instance")

#: What takes too much room to show in a cell.
LONG = {
    "bad-number": f"S//a[. = {'9' * 400}]",
    "too-deep": "(" * 40 + "S//a" + ")" * 40,
    "too-many-errors": "S//a[; " * 30,
    "too-many-choices": " FOLLOWED BY ".join(["(S//a OR S//b)"] * 9),
}


def test_every_code_is_in_its_table() -> None:
    errors, warnings = [[code(row[0]) for row in each.rows] for each in CODE_TABLES]
    assert sorted(errors) == sorted(CODES.keys() - WARNINGS.keys())
    assert sorted(warnings) == sorted(WARNINGS)


@pytest.mark.parametrize(("name", "text", "example"), rows("code", "", "for instance"))
def test_codes(name: str, text: str, example: str) -> None:
    assert text
    query = code(example) if example else LONG[code(name)]
    try:
        _, found = check_all(query)
    except XsclError as error:
        found = [d.code for d in error.diagnostics if d.severity == "error"]
    assert code(name) in found
    assert len(set(found)) == 1 or not example, "the example shows one thing"


@pytest.mark.parametrize(("what", "example", "error"), rows("", "you might write", "error"))
def test_what_is_not_supported(what: str, example: str, error: str) -> None:
    with pytest.raises(XsclError) as caught:
        compile_all(code(example))
    assert {d.code for d in caught.value.diagnostics} == {code(error)}


# -- grammar ---------------------------------------------------------------------------------


def keywords() -> set[str]:
    """The words in capitals that the parser's code compares with, and the units."""
    found = set(UNITS)
    for name in (
        "lexer",
        "parser",
        "parser_expression",
        "parser_path",
        "parser_pattern",
        "parser_query",
    ):
        source = (ROOT / "xscl" / "syntax" / f"{name}.py").read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.findall(r"^[A-Z]{2,}$", node.value))
    return found


def test_the_grammar_has_every_keyword() -> None:
    grammar = section(PAGE, "Grammar")
    text = "".join(part.text for part in grammar if isinstance(part, Fence))
    behind = PAGE.read_text(encoding="utf-8").rpartition("```")[2]
    shown = set(re.findall(r'"([A-Za-z]+)(?:\(\))?"', text)) | set(
        re.findall(r"`([A-Z]+)`", behind)
    )
    assert {"SELECT", "FOLLOWED", "NAMESPACE", "DIV", "weeks"} <= keywords()
    missing = {word for word in keywords() if word not in shown and word.lower() not in shown}
    assert not missing


def test_the_names_that_are_taken() -> None:
    behind = PAGE.read_text(encoding="utf-8").rpartition("```")[2]
    taken = re.findall(r"`([A-Z]+)`", behind.partition("can be called")[2])
    assert sorted(taken) == sorted(RESERVED)
    for word in taken:
        with pytest.raises(XsclError):
            compile_all(f"LET {word} = 1 day; S//a WITHIN {word}")


def test_the_grammar_defines_what_it_uses() -> None:
    (fence,) = [part for part in section(PAGE, "Grammar") if isinstance(part, Fence)]
    defined = set(re.findall(r"(?m)^(\w+) +=", fence.text))
    plain = re.sub(r'"[^"]*"|in a filter.*|an XML element.*', "", fence.text)
    assert set(re.findall(r"\b[a-z]+\b", plain)) <= defined
