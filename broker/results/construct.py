"""Result documents: copies of nodes, computed items, and constructed elements (SELECT).

Results are written as text, a copied node as it was serialised (`broker/rendering/copies.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.rendering.copies import node_xml
from broker.text.markup import element, text_xml
from broker.text.meter import Meter
from xscl.normal import ir
from xscl.stage1.filters import Value, as_text, compile_value, text_of
from xscl.stage1.tree import Node

Environment = Mapping[str, Node]
"""The node that each variable of SELECT stands for in a match."""

Evaluate = Callable[[ir.Expr], Value]
"""What gives the values of the expressions in SELECT for a match."""


def evaluator(env: Environment) -> Evaluate:
    """The values where each variable stands for one node."""
    return lambda expr: compile_value(expr)(env)


def item_xml(item: ir.Item, evaluate: Evaluate, meter: Meter) -> str:
    """The XML of an item of SELECT. Raises TextTooLong.

    Nodes are copied, or with AS become elements of that name with their text; a computed value
    becomes an element, named `value` where there is no AS.
    """
    value = evaluate(item.expr)
    if not isinstance(value, list):
        return meter(element(item.name or "value", (), text_xml(as_text(value))))
    if item.name is None and not ir.is_several(item.expr):
        return "".join([meter(node_xml(node)) for node in value])
    name = item.name or "value"
    return "".join([meter(element(name, (), text_xml(text_of(node)))) for node in value])


def item_texts(item: ir.Item, evaluate: Evaluate) -> list[str]:
    """The distinct texts of an item of SELECT."""
    value = evaluate(item.expr)
    texts = [text_of(node) for node in value] if isinstance(value, list) else [as_text(value)]
    return list(dict.fromkeys(texts))


def renamed(select: ir.Select) -> list[ir.Item]:
    """The items to which SELECT gives a name."""
    if select is None or isinstance(select, ir.Element):
        return []
    return [item for item in select if item.name is not None]


def construct(
    made: ir.Element,
    evaluate: Evaluate,
    namespaces: Mapping[str, str],
    meter: Meter,
    declared: Mapping[str, str] | None = None,
) -> str:
    """The element that a constructor makes of a match. `declared` are the prefixes in scope. Raises
    TextTooLong."""
    outside = dict(declared or {})
    scope = dict(outside)
    attributes: list[tuple[str, str]] = []
    for name, parts in made.attributes:
        text = "".join([meter(p if isinstance(p, str) else _joined(evaluate(p))) for p in parts])
        attributes.append((name, text))
        if name == "xmlns" or name.startswith("xmlns:"):
            scope[name.partition(":")[2]] = text
    for name in [made.name, *(name for name, _ in made.attributes)]:
        prefix, colon, _ = name.partition(":")
        if colon and prefix not in ("xml", "xmlns") and prefix not in scope:
            scope[prefix] = namespaces[prefix]
            attributes.append((f"xmlns:{prefix}", namespaces[prefix]))
    content = []
    for part in made.content:
        if isinstance(part, str):
            content.append(meter(text_xml(part)))
        elif isinstance(part, ir.Element):
            content.append(construct(part, evaluate, namespaces, meter, scope))
        elif ir.is_several(part):
            content.append(meter(text_xml(_joined(evaluate(part)))))
        else:
            value = evaluate(part)
            nodes = value if isinstance(value, list) else [as_text(value)]
            content += [meter(node_xml(node, scope.get("", ""))) for node in nodes]
    return element(made.name, attributes, "".join(content))


def _joined(value: Value) -> str:
    """A value in an attribute: several nodes are separated by blanks."""
    if isinstance(value, list):
        return " ".join(text_of(node) for node in value)
    return as_text(value)
