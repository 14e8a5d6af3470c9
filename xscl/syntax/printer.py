"""Syntax tree to canonical text.

In: a tree from `parse`. Out: text that parses to an equal tree. Layout and everything that the
grammar makes optional (`S`, `./`, `AS` for `->`, the comma in braces, redundant parentheses, the
case of keywords) are written in one way; names of variables, the order of operands and of
statements, and LET stay as written.

Internally each literal is enclosed in marks, so that the text can be split at its literals
(`split_query`).
"""

from __future__ import annotations

from decimal import Decimal

from xscl import ast
from xscl.syntax.durations import format_microseconds

_ARITHMETIC = {"+": 5, "-": 5, "*": 6, "div": 6, "mod": 6}
_OR, _AND, _NOT, _COMPARISON, _UNION, _ATOM = 1, 2, 3, 4, 8, 9


MARK = "\0"
"""The character before and after a literal; no query contains it. The first is followed by the
literal's kind: `s` for a string, `n` for a number, `w` for a window."""


def format_file(file: ast.File) -> str:
    """The file in canonical form, each statement and clause on a line of its own, without comments
    (for those, see `xscl.syntax.comments`)."""
    return "".join(_plain(_statement(statement)) + ";\n" for statement in file.statements)


def format_query(query: ast.Query, newline: str = " ") -> str:
    """The query in canonical form without its label, its clauses separated by `newline`."""
    return _plain(_query(query, newline) + _publish(query, newline))


def split_query(query: ast.Query) -> tuple[str, str, tuple[str, ...]]:
    """The query in canonical form on one line, without label and PUBLISH; its *form*, which queries
    share that differ in literals only; and its literals as they are written, in order. Literals of
    a nested query belong to the form."""
    pieces = _query(query, " ").split(MARK)
    marked = pieces[1::2]
    literals = tuple([piece[1:] for piece in marked])
    form = MARK.join(["".join([piece[0] for piece in marked]), *pieces[::2]])
    pieces[1::2] = literals
    return "".join(pieces), form, literals


def format_pattern(pattern: ast.Pattern) -> str:
    """A pattern on one line."""
    return _plain(_pattern(pattern, " "))


def format_expression(expression: ast.Expr, in_filter: bool = False) -> str:
    """A predicate, or with `in_filter` a filter, on one line."""
    return _plain(_expression(expression, 0, in_filter))


def marked_expression(expression: ast.Expr, in_filter: bool = False) -> list[str]:
    """A predicate or a filter on one line, in pieces of which every second one is a literal."""
    pieces = _expression(expression, 0, in_filter).split(MARK)
    pieces[1::2] = [piece[1:] for piece in pieces[1::2]]
    return pieces


def _plain(marked: str) -> str:
    if MARK not in marked:
        return marked
    pieces = marked.split(MARK)
    pieces[1::2] = [piece[1:] for piece in pieces[1::2]]
    return "".join(pieces)


def _query(query: ast.Query, newline: str) -> str:
    if query.select is None:
        text = _pattern(query.pattern, newline)
    else:
        text = f"SELECT {_select(query.select)}{newline}FROM {_pattern(query.pattern, newline)}"
    return text + _bounds(query, newline)


def _window(duration: ast.Duration) -> str:
    text = format_duration(duration)
    if duration.name is not None or duration.microseconds is None:
        return text
    return f"{MARK}w{text}{MARK}"


def format_duration(duration: ast.Duration) -> str:
    return duration.name or format_microseconds(duration.microseconds)


def _statement(statement: ast.Statement) -> str:
    if isinstance(statement, ast.LetDuration):
        return f"LET {statement.name} = {format_duration(statement.duration)}"
    if isinstance(statement, ast.LetNamespace):
        return f"LET NAMESPACE {statement.prefix} = {quoted(statement.uri)}"
    if statement.label is None:
        return _query(statement, "\n") + _publish(statement, "\n")
    newline = "\n    "
    return f"{statement.label}: {_query(statement, newline)}{_publish(statement, newline)}"


def _bounds(query: ast.Query, newline: str) -> str:
    """All clauses but PUBLISH, each after `newline`."""
    clauses = []
    if query.partition:
        paths = ", ".join(_relative(path.steps) for path in query.partition)
        clauses.append(f"PARTITION BY {paths}")
    if query.strategy is not None:
        chosen = (query.strategy.selection, query.strategy.choosing)
        clauses.append(" ".join(["USING", *filter(None, chosen)]))
    clauses += _judged(query.where, query.within)
    if query.wait is not None:
        clauses.append(f"WAIT {_window(query.wait)}")
    over = query.over
    if over is not None:
        window = f"OVER {_window(over.window)}"
        if over.keys:
            keys = ", ".join(_expression(key, 0, False) for key in over.keys)
            window = f"GROUP BY {keys} {window}"
        if over.having is not None:
            window += f" HAVING {_expression(over.having, 0, False)}"
        clauses.append(window)
    return "".join(newline + clause for clause in clauses)


def _judged(where: ast.Expr | None, within: ast.Duration | None) -> list[str]:
    clauses = []
    if where is not None:
        clauses.append(f"WHERE {_expression(where, 0, False)}")
    if within is not None:
        clauses.append(f"WITHIN {_window(within)}")
    return clauses


def _publish(query: ast.Query, newline: str) -> str:
    if query.publish is None:
        return ""
    return f"{newline}PUBLISH {query.publish}" + (" AT END" if query.at_end else "")


# -- patterns --------------------------------------------------------------------------------


def _pattern(pattern: ast.Pattern, newline: str) -> str:
    match pattern:
        case ast.Block():
            return pattern.stream + _steps(pattern.steps)
        case ast.Nested():
            query = pattern.query
            select = "*" if query.select is None else _select(query.select)
            inner = f"SELECT {select} FROM {_pattern(query.pattern, ' ')}{_bounds(query, ' ')}"
            # The text of a nested query identifies its stream, so it keeps its literals.
            return f"({_plain(inner + _publish(query, ' '))}){_steps(pattern.steps)}"
        case ast.Alternatives():
            return f"{newline}OR ".join(_pattern(each, newline) for each in pattern.branches)
        case ast.Negation():
            return f"NOT {_term(pattern.pattern, newline)}"
        case ast.Group():
            return f"({_pattern(pattern.pattern, newline)}){_quantifier(pattern)}"
        case ast.Parenthesis():
            clauses = "".join(" " + each for each in _judged(pattern.where, pattern.within))
            return f"({_pattern(pattern.pattern, newline)}{clauses})"
    braces = _fold_braces(pattern) if isinstance(pattern, ast.Fold) else _braces(pattern)
    operator = "FOLD" if isinstance(pattern, ast.Fold) else str(pattern.kind)
    if braces:
        operator += f" {{{braces}}}"
    left, right = _pattern(pattern.left, newline), _term(pattern.right, newline)
    return f"{left}{newline}{operator} {right}"


def _term(pattern: ast.Pattern, newline: str) -> str:
    """An operand on the right of an operator or of NOT."""
    text = _pattern(pattern, newline)
    return f"({text})" if isinstance(pattern, ast.Join) else text


def _quantifier(group: ast.Group) -> str:
    match group.least, group.most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case least, None:
            return f"{{{least},}}"
        case least, most:
            return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _braces(join: ast.Join) -> str:
    parts = []
    if join.predicate is not None:
        text = _expression(join.predicate, 0, False)
        # A lone name or number in braces is a window.
        alone = join.predicate
        lone = isinstance(alone, ast.Number) or (isinstance(alone, ast.Path) and not alone.steps)
        parts.append(f"({text})" if lone else text)
    if join.window is not None:
        parts.append(_window(join.window) + (" AFTER" if join.after else ""))
    return ", ".join(parts)


def _fold_braces(fold: ast.Fold) -> str:
    """The first comma is always written."""
    both = (fold.filter, fold.proceed)
    conditions = ["" if part is None else _expression(part, 0, False) for part in both]
    iterations = [
        f"{_expression(each.expr, 0, False)} AS {each.variable} FROM "
        + _expression(each.initial, 0, False)
        for each in fold.iterations
    ]
    return ", ".join([*conditions, *iterations]).rstrip(" ")


def _steps(steps: tuple[ast.Step, ...]) -> str:
    text = ""
    for step in steps:
        text += step.axis + _step(step)
    return text


def _step(step: ast.Step) -> str:
    text = _test(step.test)
    if step.variable is not None:
        # A name that ends with a hyphen needs a blank before the arrow.
        text += (" ->" if text[-1] == "-" else "->") + step.variable
    for part in step.filters:
        text += f"[{_expression(part, 0, True)}]"
    return text


def _test(test: ast.Test) -> str:
    kind = test.kind
    if kind == "element" or kind == "attribute":
        text = test.name or "*"
        if test.prefix is not None:
            text = f"{test.prefix}:{text}"
        if kind == "attribute":
            text = "@" + text
    elif kind == "self":
        text = "."
    elif kind == "processing-instruction" and test.name is not None:
        text = f"{kind}({quoted(test.name)})"
    else:
        text = f"{kind}()"
    if test.axis is None:
        return text
    return ".." if kind == "node" and test.axis == "parent" else f"{test.axis}::{text}"


def _relative(steps: tuple[ast.Step, ...]) -> str:
    """A path from the filtered step or from the document; a first step `.` with a variable or
    filters is written without another `.` before it."""
    if not steps:
        return "."
    first = steps[0]
    if first.test.kind == "root":
        return _steps(steps[1:]) or "/"
    if first.axis == "/" and first.test.kind == "self" and (first.variable or first.filters):
        return _step(first) + _steps(steps[1:])
    return "." + _steps(steps)


# -- expressions -----------------------------------------------------------------------------


def _expression(expression: ast.Expr, power: int, in_filter: bool) -> str:
    """The expression, in parentheses if it binds no tighter than `power`."""
    kind = type(expression)
    if kind is ast.Path:
        assert isinstance(expression, ast.Path)
        if expression.variable is None:
            return _relative(expression.steps)
        return expression.variable + _steps(expression.steps)
    text, own = _operator(expression, in_filter)
    return f"({text})" if own <= power else text


def _operator(expression: ast.Expr, in_filter: bool) -> tuple[str, int]:
    """The text of an expression other than a path, and its binding power."""
    if isinstance(expression, ast.Comparison):
        left = _expression(expression.left, _COMPARISON, in_filter)
        right = _expression(expression.right, _COMPARISON, in_filter)
        return f"{left} {expression.op} {right}", _COMPARISON
    if isinstance(expression, ast.String):
        return f"{MARK}s{quoted(expression.value)}{MARK}", _ATOM
    if isinstance(expression, ast.Number):
        return f"{MARK}n{format_number(expression.value)}{MARK}", _ATOM
    if isinstance(expression, ast.Call):
        arguments = ", ".join(_expression(part, 0, in_filter) for part in expression.args)
        return f"{expression.name}({arguments})", _ATOM
    if isinstance(expression, ast.And | ast.Or):
        word, own = ("AND", _AND) if isinstance(expression, ast.And) else ("OR", _OR)
        if in_filter:
            word = word.lower()
        return f" {word} ".join(_expression(p, own, in_filter) for p in expression.parts), own
    if isinstance(expression, ast.Not):
        part = _expression(expression.part, 0, in_filter)
        return (f"not({part})", _ATOM) if in_filter else (f"NOT ({part})", _NOT)
    if isinstance(expression, ast.Union):
        return " | ".join(_expression(p, _UNION, in_filter) for p in expression.parts), _UNION
    if isinstance(expression, ast.Filtered):
        return _filtered(expression), _ATOM
    if isinstance(expression, ast.Selected):
        return f". in ..{_steps((expression.step,))}", _COMPARISON
    assert isinstance(expression, ast.Arithmetic)
    own = _ARITHMETIC[expression.op]
    left = _expression(expression.left, own - 1, in_filter)
    right = _expression(expression.right, own, in_filter)
    return f"{left} {expression.op} {right}", own


def _filtered(expression: ast.Filtered) -> str:
    text = _expression(expression.part, 0, True)
    if not isinstance(expression.part, ast.Call):
        text = f"({text})"
    text += "".join(f"[{_expression(part, 0, True)}]" for part in expression.filters)
    return text + _steps(expression.steps)


def quoted(value: str) -> str:
    """The string in the quotation marks that it does not contain; no string contains both."""
    mark = '"' if "'" in value else "'"
    return f"{mark}{value}{mark}"


def format_number(value: float) -> str:
    """The shortest decimal notation, without an exponent, that parses to the same double."""
    if value == int(value):
        return str(int(Decimal(repr(value)))) if value else repr(value).removesuffix(".0")
    return format(Decimal(repr(value)), "f")


# -- SELECT ----------------------------------------------------------------------------------


def _select(select: tuple[ast.SelectItem, ...] | ast.Element) -> str:
    if isinstance(select, ast.Element):
        return _element(select)
    return ", ".join(
        _expression(item.expr, 0, False) + (f" AS {item.name}" if item.name else "")
        for item in select
    )


def _element(element: ast.Element) -> str:
    text = "<" + element.name
    for name, parts in element.attributes:
        value = "".join(
            _attribute_text(part) if isinstance(part, str) else f"{{{_expression(part, 0, False)}}}"
            for part in parts
        )
        text += f' {name}="{value}"'
    if not element.content:
        return text + "/>"
    content = "".join(
        _content_text(part)
        if isinstance(part, str)
        else _element(part)
        if isinstance(part, ast.Element)
        else f"{{{_expression(part, 0, False)}}}"
        for part in element.content
    )
    return f"{text}>{content}</{element.name}>"


_CONTENT = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "{": "{{", "}": "}}", "\r": "&#13;"}
)
_ATTRIBUTE = _CONTENT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


def _attribute_text(text: str) -> str:
    return text.translate(_ATTRIBUTE)


def _content_text(text: str) -> str:
    """Text between tags; in text of blanks only, a reference keeps it from being layout."""
    if not text.strip(" \t\r\n"):
        return f"&#{ord(text[0])};" + text[1:].translate(_CONTENT)
    return text.translate(_CONTENT)
