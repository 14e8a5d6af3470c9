"""The cases of the conformance suites, read from the third-party data beside the repository.

- `xpath_jaxen/cases.jsonl`: an expression, its context, and the number of nodes it selects or its
  value as a string;
- `xml_libxml2`: expressions with dumps of what they select or give (`test/XPath`), and match
  patterns with the paths of the elements that match (`test/pattern`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).parents[3] / "shared" / "data"
JAXEN = DATA / "xpath_jaxen"
LIBXML2 = DATA / "xml_libxml2"


@dataclass(frozen=True)
class Nodes:
    """`count` nodes, of these kinds and names where the suite tells them: `element a`, `text`."""

    count: int
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class At:
    """The elements at these paths, as `getpath` of lxml writes them."""

    paths: frozenset[str]


@dataclass(frozen=True)
class Value:
    """A string, number or boolean; of nodes, the string value of the first."""

    value: str | float | bool


class Wrong:
    """The suite says that the expression is in error."""


class Unsaid:
    """The suite only asks that the expression can be evaluated."""


Expected = Nodes | At | Value | Wrong | Unsaid


@dataclass(frozen=True)
class Case:
    """`text` is evaluated with the first node of the absolute path `context` of the document."""

    suite: str
    document: Path
    context: str
    text: str
    expected: Expected
    prefixes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        where = f" at {self.context}" if self.context != "/" else ""
        return f"{self.suite} {self.document.stem}{where}: {self.text.strip()}"


# -- Jaxen -----------------------------------------------------------------------------------

# The cases do not say which prefixes their contexts declare: these are such that the expectation
# holds, as the suite gives one expression with two expectations for two declarations.
_FOO, _BAR = "http://fooNamespace/", "http://barNamespace/"
_PREFIXES: dict[str, dict[str, str]] = {
    "namespaces": {"foo": _FOO, "voo": _FOO, "alias": _FOO, "bar": _BAR},
    "defaultNamespace": {"dummy": "https://example.org/"},
}
_ELSEWHERE = "http://somethingElse/"


def jaxen() -> Iterator[Case]:
    lines = (JAXEN / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    for plain in map(json.loads, lines):
        document = JAXEN / "core" / plain["doc"]
        prefixes = _PREFIXES.get(document.stem, {})
        expected: Expected
        if plain["exception"]:
            expected = Wrong()
        elif plain["kind"] == "valueOf":
            expected = Value(plain["expected"] or "")
        elif plain["count"] is None:
            expected = Unsaid()
        else:
            expected = Nodes(int(plain["count"]))
            if not expected.count and prefixes:
                prefixes = dict.fromkeys(prefixes, _ELSEWHERE)
        yield Case("jaxen", document, plain["context"], plain["select"], expected, prefixes)


# -- libxml2 ---------------------------------------------------------------------------------


def libxml2_paths() -> Iterator[Case]:
    """Expressions over documents, with dumps of the nodes; relative ones start at the root
    element."""
    documents = sorted((LIBXML2 / "test/XPath/docs").iterdir(), key=lambda d: -len(d.name))
    for dump in sorted((LIBXML2 / "result/XPath/tests").iterdir()):
        document = next(d for d in documents if dump.name.startswith(d.name))
        for text, result in _dumps(dump):
            yield Case("libxml2", document, "/*", text, _dumped(result))


def libxml2_values() -> Iterator[Case]:
    """Expressions without a document; any will do."""
    document = LIBXML2 / "test/XPath/docs/simple"
    for dump in sorted((LIBXML2 / "result/XPath/expr").iterdir()):
        for text, result in _dumps(dump):
            yield Case(f"libxml2 {dump.name}", document, "/", text, _dumped(result))


def _dumps(file: Path) -> Iterator[tuple[str, str]]:
    """Expressions and what was dumped of their results."""
    for part in file.read_text(encoding="utf-8").split("========================\n")[1:]:
        first, _, result = part.partition("\n")
        yield first.removeprefix("Expression: "), result


_KINDS = {
    "ELEMENT": "element",
    "ATTRIBUTE": "attribute",
    "TEXT": "text",
    "CDATA_SECTION": "text",
    "COMMENT": "comment",
    "PI": "processing-instruction",
    "namespace": "namespace",
}


def _dumped(result: str) -> Expected:
    if found := re.match(r"Object is a (number|Boolean|string) : (.*)", result):
        kind, value = found.groups()
        if kind == "string":
            return Value(value)
        return Value(value == "true" if kind == "Boolean" else float(value))
    if "Node Set" not in result:
        return Wrong()
    names = []
    for line in result.splitlines():
        if found := re.match(r"\d+  +([A-Za-z_]+)(?: (\S+))?", line):
            kind = _KINDS[found[1]]
            named = kind in ("element", "attribute", "processing-instruction")
            names.append(f"{kind} {_decoded(found[2])}" if named else kind)
        elif re.match(r"\d+   /", line):
            names.append("document")
    size = re.search(r"Set contains (\d+) nodes", result)
    count = int(size[1]) if size else 0  # "Object is a Node Set : Set contains NULL"
    assert len(names) == count, result
    return Nodes(count, tuple(names))


def _decoded(name: str) -> str:
    """A name as the dumps have it, letters beyond ASCII as `#` and the digits of their bytes."""
    plain = re.sub(rb"#([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), name.encode())
    return plain.decode()


def libxml2_patterns() -> Iterator[Case]:
    """Match patterns: a relative one may match anywhere, so it stands for a path after `//`."""
    for file in sorted((LIBXML2 / "test/pattern").glob("*.pat")):
        matched: dict[str, set[str]] = {}
        for line in (LIBXML2 / "result/pattern" / file.stem).read_text().splitlines():
            found = re.fullmatch(r"Node (\S+) matches pattern (\S+)", line)
            assert found is not None, line
            matched.setdefault(found[2], set()).add(found[1])
        prefixes = {p: f"http://{u}" for p, u in zip("abc", "aba", strict=True)}
        for pattern in dict.fromkeys(file.read_text().split()):
            for_each = [p if p.startswith("/") else f"//{p}" for p in pattern.split("|")]
            yield Case(
                "libxml2 pattern",
                file.with_suffix(".xml"),
                "/",
                " | ".join(for_each),
                At(frozenset(matched.get(pattern, ()))),
                prefixes if file.stem == "namespaces" else {},
            )
