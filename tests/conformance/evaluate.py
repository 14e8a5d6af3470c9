"""Runs conformance cases through the broker and compares the results.

Every case becomes queries of one block. All queries about one document are registered with one
broker, so that they share its automaton, and the document is processed once. What a case selects
must be what its suite says, node by node what lxml selects, and one without a form in the language
must be refused by an error that names what is missing.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from broker import Broker, Document, Match, XsclError
from tests.conformance import xpath
from tests.conformance.cases import At, Case, Expected, Nodes, Unsaid, Value, Wrong
from tests.conformance.translate import Reason, Writer, at_root, kind_of
from xscl.stage1.document import (
    ELEMENT_BITS,
    ELEMENT_MASK,
    TEXT_NODE,
    attribute_name,
    node_element,
    node_text,
    parse_document,
)
from xscl.syntax.printer import format_number, quoted

MINUTES = 1
"""What processing one document may take."""

IN_FULL = "a number as a string is written in full, as XPath 1.0 has it"
ANY_NAMESPACE = "a name without prefix matches in any namespace"


_EXPONENT = re.compile(r"-?\d\.\d+e[+-]\d+")


@dataclass(frozen=True, order=True)
class Outcome:
    """`category` is "passed", "refused", "no XPath", "by design" or "failed"."""

    category: str
    detail: str = ""


@dataclass
class Attempt:
    """A case as a query of the language. `holds` says of a condition whether it must match."""

    query: str
    reasons: frozenset[Reason] = frozenset()
    expr: xpath.Expr | None = None
    holds: bool | None = None
    id: str = ""
    error: XsclError | None = None
    matches: list[Match] = field(default_factory=list)


@dataclass
class Trial:
    """A case on its way: the document it is about, its queries, and what came of them."""

    case: Case
    xml: bytes
    attempts: list[Attempt]


# -- from a case to queries ------------------------------------------------------------------


def trial(case: Case) -> Trial:
    xml = case.document.read_bytes()
    try:
        expr = xpath.parse(case.text)
    except xpath.NotXPath:
        assert isinstance(case.expected, Wrong | Value), case
        text = case.text.strip()
        return Trial(case, xml, [Attempt(f"S{text}" if text[0] == "/" else f"S/*[{text}]")])
    expr = xpath.of_the_node(expr)
    context = xpath.parse(case.context)
    assert isinstance(context, xpath.Path)
    if any(not path.absolute for path in xpath.paths(expr)):
        expr = xpath.below(context, expr)
    attempts = []
    if kind_of(expr) == "nodes" and isinstance(expr, xpath.Path | xpath.Filtered | xpath.Binary):
        attempts.append(_block(expr))
    if isinstance(case.expected, Value):
        attempts += _conditions(expr, case.expected.value)
    if not attempts:
        attempts.append(_block(expr))
    return Trial(case, xml, attempts)


def _block(expr: xpath.Expr) -> Attempt:
    writer = Writer()
    return Attempt(writer.block(expr), frozenset(writer.reasons), expr)


def _conditions(expr: xpath.Expr, value: str | float | bool) -> list[Attempt]:
    """An expression and its value as a filter of the root element, and as a predicate over it."""
    kind = kind_of(expr)
    moved = at_root(expr)
    test, inner = ("*", expr) if moved is None else moved
    truth = value if isinstance(value, bool) else kind != "boolean" or value == "true"
    attempts = []
    for variable, query in ((None, f"S/{test}[{{}}]"), ("x", f"S/{test}->x WHERE {{}}")):
        if kind == "nodes" and value == "" and variable:
            continue  # no node has a value, where XPath's string() gives ""
        writer = Writer(variable)
        boolean = kind == "boolean"
        text = writer.condition(inner) if boolean else _equals(writer, kind, inner, value)
        reasons = frozenset(writer.reasons)
        # The opposite too, so that what always matches or never does is not taken for right.
        attempts += [
            Attempt(query.format(text), reasons, holds=truth),
            Attempt(query.format(f"not ({text})"), reasons, holds=not truth),
        ]
    return attempts


def _equals(writer: Writer, kind: str, expr: xpath.Expr, value: str | float | bool) -> str:
    if kind == "string":
        return f"{writer.operand(expr)} = {quoted(str(value))}"
    if kind == "nodes":
        # As an argument of a function, so that the first node counts, as in XPath's string().
        return f"concat({writer.operand(expr)}, '') = {quoted(str(value))}"
    text, number = writer.operand(expr), float(value)
    if math.isnan(number):
        return f"{text} != {text}"
    if math.isinf(number):
        return f"{text} {'>' if number > 0 else '<'} {'-' if number < 0 else ''}1{'0' * 308}"
    if number.is_integer() and abs(number) < 1e9:
        return f"{text} = {format_number(number)}"
    # The dumps have fifteen digits, or six where they use an exponent.
    near = abs(number) * (1e-14 if 1e-5 <= abs(number) < 1e9 else 1e-5)
    low, high = format_number(number - near), format_number(number + near)
    return f"{text} >= {low} {'AND' if writer.variable else 'and'} {text} <= {high}"


# -- the broker ------------------------------------------------------------------------------


def run(trials: Iterable[Trial]) -> None:
    """Register the queries of all cases, one broker for each document, and process it."""
    documents: dict[bytes, list[Trial]] = {}
    for each in trials:
        documents.setdefault(each.xml, []).append(each)
    for xml, about in documents.items():
        with Broker() as broker:
            attempts: dict[str, Attempt] = {}
            for each in about:
                for attempt in each.attempts:
                    attempt.id = f"c{len(attempts)}"
                    attempts[attempt.id] = attempt
                    try:
                        broker.subscribe(_file(attempt, each.case.prefixes))
                    except XsclError as error:
                        attempt.error = error
            for match in _process(broker, xml):
                attempts[match.query].matches.append(match)
            assert not broker.dead_letters(), about[0].case


def _process(broker: Broker, xml: bytes) -> list[Match]:
    """The matches of the document; an error rather than a wait without end where they take long."""
    limit = threading.Timer(MINUTES * 60, broker.engine.store.connection.interrupt)
    limit.start()
    try:
        return broker.process([Document(id="d", xml=xml)])
    finally:
        limit.cancel()


def _file(attempt: Attempt, prefixes: Mapping[str, str]) -> str:
    lets = "".join(f"LET NAMESPACE {p} = {quoted(u)};\n" for p, u in prefixes.items())
    return f"{lets}{attempt.id}: {attempt.query};\n"


# -- judging ---------------------------------------------------------------------------------


def judge(each: Trial) -> Outcome:
    outcomes = [_judge(each, attempt) for attempt in each.attempts]
    for category in ("failed", "by design", "passed"):
        for outcome in outcomes:
            if outcome.category == category:
                return outcome
    return outcomes[0]


def _judge(each: Trial, attempt: Attempt) -> Outcome:
    case = each.case
    if attempt.error is not None:
        return _refusal(case, attempt, attempt.error)
    if attempt.reasons or isinstance(case.expected, Wrong):
        return Outcome("failed", f"accepted: {attempt.query}")
    if attempt.holds is not None:
        if bool(attempt.matches) == attempt.holds:
            return Outcome("passed")
        if isinstance(case.expected, Value) and _EXPONENT.fullmatch(str(case.expected.value)):
            return Outcome("by design", IN_FULL)
        return Outcome("failed", f"{'no ' if attempt.holds else 'a '}match: {attempt.query}")
    return _nodes(each, attempt)


def _refusal(case: Case, attempt: Attempt, error: XsclError) -> Outcome:
    if isinstance(case.expected, Wrong) or (attempt.expr is None and attempt.holds is None):
        return Outcome("no XPath")
    for reason in sorted(attempt.reasons):
        for found in error.diagnostics:
            message = f"{found.message} {found.span.text} {found.hint}"
            if found.code in reason.codes and reason.named in message:
                return Outcome("refused", reason.text)
    return Outcome("failed", f"refused: {attempt.query}\n{error}")


def _nodes(each: Trial, attempt: Attempt) -> Outcome:
    """Compare what was selected with the suite's expectation and, node by node, with lxml."""
    case, expected = each.case, each.case.expected
    root = parse_document(each.xml)
    numbers = [node for match in attempt.matches for node in match.nodes]
    found = Counter(our_node(root, number) for number in numbers)
    assert attempt.expr is not None
    strict, free = (
        lxml_nodes(root, xpath.spelt(attempt.expr, any_namespace), case.prefixes)
        for any_namespace in (False, True)
    )
    holds = satisfies(root, found, expected)
    if found == strict:
        return Outcome("passed") if holds else Outcome("failed", "lxml agrees, the suite does not")
    if found == free and not holds and satisfies(root, strict, expected):
        return Outcome("by design", ANY_NAMESPACE)
    return Outcome("failed", f"{attempt.query}\n{sorted(found)}\nlxml: {sorted(strict)}")


Node = tuple[str, int, str]
"""Kind and name, the index of the element it is or belongs to, and its string value."""


def our_node(root: etree._Element, number: int) -> Node:
    index, ordinal = number & ELEMENT_MASK, number >> ELEMENT_BITS
    if ordinal & TEXT_NODE:
        kind = "text"
    elif ordinal:
        kind = f"attribute {attribute_name(node_element(root, number), number)}"
    else:
        kind = _kind(node_element(root, number))
    return kind, index, node_text(root, number)


def lxml_nodes(root: etree._Element, path: str, prefixes: Mapping[str, str]) -> Counter[Node]:
    index = {element: i for i, element in enumerate(root.iter())}
    nodes: Counter[Node] = Counter()
    for node in select(root, path, prefixes):
        if isinstance(node, etree._Element):
            nodes[_kind(node), index[node], node_text(root, index[node])] += 1
            continue
        parent = node.getparent()
        if node.is_tail:
            parent = parent.getparent()
        kind = f"attribute {etree.QName(node.attrname).localname}" if node.is_attribute else "text"
        nodes[kind, index[parent], str(node)] += 1
    return nodes


def select(root: etree._Element, path: str, prefixes: Mapping[str, str]) -> list[Any]:
    """What lxml selects: elements, and strings that know where they come from."""
    selected = root.getroottree().xpath(path, namespaces=dict(prefixes) or None)
    assert isinstance(selected, list), path
    return selected


def _kind(node: etree._Element) -> str:
    if isinstance(node, etree._Comment):
        return "comment"
    if isinstance(node, etree._ProcessingInstruction):
        return f"processing-instruction {node.target!s}"
    return "element " + str(node.tag).rpartition("}")[2]


def satisfies(root: etree._Element, found: Counter[Node], expected: Expected) -> bool:
    match expected:
        case Nodes(count=count, names=names):
            kinds = [kind for kind, _, _ in found.elements()]
            return len(kinds) == count and (names is None or sorted(kinds) == sorted(names))
        case At(paths=paths):
            elements = list(root.iter())
            tree = root.getroottree()
            return {tree.getpath(elements[i]) for _, i, _ in found} == paths
        case Value(value=value):
            first = min(found, key=lambda node: node[1], default=("", 0, ""))
            return first[2] == value
    return isinstance(expected, Unsaid)
