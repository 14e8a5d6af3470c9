"""Compiled shapes as text, for the state, so that a restart need not compile queries again.

The text is JSON: an object of one key is a dataclass by its name and fields in order, an
enumeration by its name and value, a set or a mapping; an array is a tuple. It can only be read by
the version of the classes that wrote it, so a state stores the version of the compiler
(`COMPILER`) beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from broker.model import compact_json
from broker.query.blueprint import Blueprint, Delivery, Inner
from xscl import ast
from xscl.normal import ir
from xscl.normal.lower import NOWHERE
from xscl.normal.operators import FollowedBy, Join
from xscl.normal.template import Template
from xscl.normal.treepattern import Definition

_CLASSES: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(Blueprint, Delivery, Inner, Definition, Template, Join, FollowedBy),
        *(ir.Comparator, ir.Calculation, ir.Test, ir.Step, ir.String, ir.Number, ir.Parameter),
        *(ir.Path, ir.Beyond, ir.VariablePath, ir.NodeValue, ir.SomeNode, ir.Call, ir.Arithmetic),
        *(ir.Comparison, ir.And, ir.Or, ir.Not, ir.Item, ir.Element),
    )
}
_PARTS = {
    f"ast.{each.__name__}": each
    for each in (
        *(ast.Test, ast.Step, ast.String, ast.Number, ast.Path, ast.Call, ast.Arithmetic),
        *(ast.Comparison, ast.And, ast.Or, ast.Not, ast.Union, ast.Filtered, ast.Selected),
    )
}
"""Parts of the syntax tree, which stand in what goes beyond plain steps, without their places."""
_CLASSES |= _PARTS
_NAMES = {kind: name for name, kind in _CLASSES.items()}


def dumps(blueprint: Blueprint) -> str:
    return compact_json(_encoded(blueprint))


def loads(text: str) -> Blueprint:
    found: Blueprint = _decoded(json.loads(text))
    return found


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        return [*map(_encoded, value)]
    if isinstance(value, frozenset):
        return {"set": [*map(_encoded, sorted(value))]}
    if isinstance(value, Mapping):
        return {"map": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    kind: Any = type(value)
    name = _NAMES[kind]
    if isinstance(value, Enum):
        return {name: value.value}
    assert is_dataclass(value)
    return {name: [_encoded(getattr(value, each)) for each in _fields(kind)]}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_decoded(part) for part in value])
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == "set":
        return frozenset(map(_decoded, content))
    if name == "map":
        return {_decoded(key): _decoded(item) for key, item in content}
    kind = _CLASSES[name]
    if name in _PARTS and kind is not ast.Test:
        return kind(*map(_decoded, content), span=NOWHERE)
    return kind(*map(_decoded, content)) if isinstance(content, list) else kind(content)


@lru_cache(maxsize=64)
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple([each.name for each in fields(kind) if not each.kw_only])
