"""The page /docs: the OpenAPI description as plain HTML, without scripts or external resources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from broker.service.api.problems import KINDS, PREFIX

_CODE = re.compile("`([^`]+)`")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
}

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { border-bottom: 1px solid; } code, pre { font-family: ui-monospace, monospace; }
pre { overflow-x: auto; padding: .5rem; background: #8881; } td, th { text-align: left;
vertical-align: top; padding: .15rem .75rem .15rem 0; } details { margin: .75rem 0; }
summary { cursor: pointer; } .method { display: inline-block; min-width: 4rem; font-weight: bold; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } a { color: #8cf; } }
"""


def page(openapi: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document."""
    info = openapi["info"]
    title = escape(info["title"])
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{title}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{title} {escape(info['version'])}</h1>",
            _paragraphs(info["description"]),
            '<p>For programs: <a href="/openapi.json">/openapi.json</a></p>',
            *_operations(openapi),
            "<h2>Problems</h2>",
            *_problems(),
            "<h2>Shapes</h2>",
            *_schemas(openapi["components"]["schemas"]),
            "</body></html>",
        ]
    )


def _operations(openapi: Mapping[str, Any]) -> Iterator[str]:
    for tag in openapi["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>{_paragraphs(tag['description'])}"
        for path, methods in openapi["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    yield _operation(path, method, operation)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    parts = [
        f'<details id="{escape(operation["operationId"])}"><summary>'
        f'<span class="method">{method.upper()}</span> <code>{escape(path)}</code> '
        f"{escape(operation['summary'])}</summary>",
        _paragraphs(operation["description"]),
    ]
    if parameters := operation.get("parameters"):
        parts += ["<table><tr><th>parameter<th>in<th>type<th></tr>", *map(_parameter, parameters)]
        parts.append("</table>")
    if body := operation.get("requestBody"):
        kinds = ", ".join(
            f"<code>{escape(kind)}</code> {_type(content['schema'])}"
            for kind, content in body["content"].items()
        )
        parts.append(f"<p>Body: {kinds}</p>")
    parts.append("<table><tr><th>status<th>answer<th></tr>")
    for status, response in sorted(operation["responses"].items()):
        kinds = ", ".join(
            f"<code>{escape(kind)}</code> {_type(content.get('schema', {}))}"
            for kind, content in response.get("content", {}).items()
        )
        parts.append(f"<tr><td>{status}<td>{_words(response['description'])}<td>{kinds}</tr>")
    return "".join([*parts, "</table></details>"])


def _parameter(parameter: Mapping[str, Any]) -> str:
    needed = " (needed)" if parameter.get("required") else ""
    return (
        f"<tr><td><code>{escape(parameter['name'])}</code>{needed}<td>{escape(parameter['in'])}"
        f"<td>{_type(parameter['schema'])}<td>{_words(parameter.get('description', ''))}</tr>"
    )


def _problems() -> Iterator[str]:
    yield "<table><tr><th>type<th>status<th></tr>"
    for code, (status, title) in KINDS.items():
        yield f"<tr><td><code>{PREFIX}{code}</code><td>{status}<td>{escape(title)}</tr>"
    yield "</table>"


def _schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        yield f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        yield _paragraphs(schema.get("description", ""))
        yield "<table>"
        for field, kind in schema.get("properties", {}).items():
            needed = " (needed)" if field in schema.get("required", ()) else ""
            yield (
                f"<tr><td><code>{escape(field)}</code>{needed}<td>{_type(kind)}"
                f"<td>{_words(kind.get('description', ''))}</tr>"
            )
        yield "</table></details>"


def _type(schema: Mapping[str, Any]) -> str:
    """A type in a few words, with links to the schemas."""
    if reference := schema.get("$ref"):
        name = escape(reference.rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(_type, choices))
    if values := schema.get("enum"):
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in values)
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(str(schema.get("type", "")))


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_words(part)}</p>" for part in text.split("\n\n") if part.strip())


def _words(text: str) -> str:
    """A text as HTML; what is between backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))
