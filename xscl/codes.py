"""The codes of all diagnostics of the language, one line each.

A code is stable: programs may branch on it, and a message may be reworded without touching it.
Every code has at least one golden case in `tests/language/errors`, which a test enforces.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SYNTAX: Mapping[str, str] = MappingProxyType(
    {
        "bad-character": "a character that begins no token, or that XML does not allow",
        "unclosed-string": "a quotation mark that opens a string nobody closes",
        "syntax": "something else was expected here",
        "reserved-word": "a keyword where it could not be told from the clause it begins",
        "bad-number": "a number beyond the range of a double",
        "bad-duration": "an unknown unit, or a window too fine or too long to count",
        "clause-order": "clauses out of order, or given twice",
        "path-start": "a path in a predicate that starts at no variable",
        "binding-place": "a variable bound where nothing can be bound",
        "arithmetic-in-filter": "arithmetic behind a variable that a filter binds",
        "axis": "a path of a block or of a predicate that leads elsewhere than down",
        "position": "a position among all descendants in the path of a block or of a predicate",
        "node-test": "a node test that the path of a block or of a predicate cannot have",
        "constructor": "an XML constructor that is not well formed",
        "too-deep": "nesting, or a chain, beyond what is accepted",
        "too-many-errors": "there are more errors than are shown",
        "after-join": "AFTER in the braces of a JOIN, which has no order",
        "bad-quantifier": "a quantifier that allows no group, or is no whole number",
    }
)

STATIC: Mapping[str, str] = MappingProxyType(
    {
        "unknown-variable": "a variable that no block of the query binds",
        "unbound-variable": "a variable inside or, not, a comparison or a function",
        "duplicate-variable": "a variable bound twice in one query",
        "unknown-duration": "a window name that no LET above defines",
        "unknown-prefix": "a namespace prefix that no LET NAMESPACE above defines",
        "duplicate-let": "a name or prefix defined twice in one file",
        "reserved-prefix": "the prefix xml or xmlns, or an empty namespace name",
        "duplicate-id": "two queries with one id",
        "duplicate-publish": "two queries that publish one stream",
        "publish-cycle": "streams that are derived from themselves",
        "nested-publish": "PUBLISH inside parentheses",
        "unknown-function": "a function that does not exist",
        "arity": "a function with too few or too many arguments",
        "not-a-value": "a condition where a value is needed",
        "not-a-condition": "a value where a condition is needed",
        "bad-pattern": "a regular expression that RE2 does not accept",
        "document-node": "a block that would select the document itself",
        "not-nodes": "a value where nodes are needed",
    }
)

PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "negation-alone": "a pattern or a branch of OR that only says what is absent",
        "negation-window": "an absence that no window and no document bounds",
        "negation-nesting": "NOT inside NOT",
        "negation-empty": "NOT of what may be empty, which is always there",
        "negation-operand": "NOT as an operand of NEXT or FOLD",
        "negation-scope": "a variable of a NOT where it stands for nothing",
        "group-operand": "a group as an operand of NEXT or FOLD",
        "group-scope": "a variable of a group or of FOLD where it stands for several documents",
        "group-window": "a group that no window and no document ends",
        "group-nesting": "a group or FOLD inside a group",
        "too-many-choices": "several ORs whose choices of branches multiply too far",
        "adjacent-groups": "groups with nothing between them that says where one ends",
        "empty-pattern": "a pattern that would match nothing at all",
        "unbounded-group": "all combinations of a group without a window over the whole",
        "strategy-pattern": "a strategy for a pattern that it does not fit",
        "partition-missing": "PARTITION CONTIGUITY without PARTITION BY",
        "aggregate-scope": "a function over several documents of a variable that has one",
        "out-of-scope": "a variable that the predicate's place does not see",
    }
)

WARNINGS: Mapping[str, str] = MappingProxyType(
    {
        "no-value-join": "two sides of a join that no value join connects",
        "symmetric-join": "a join of a pattern with itself, which finds each pair twice",
        "empty-window": "a window in which nothing can ever match, or a wait without end",
        "variable-in-filter": "an element test in a filter that is named like a variable",
        "arrow-in-path": "a variable called like its stream, as in S/a -> S/b",
        "text-order": "< and its like between texts or dates, which are no numbers",
        "date-arithmetic": "a calculation with a date, which is no number",
        "dead-step": "a step below an attribute or a text, which selects nothing",
        "contradiction": "a filter or a condition that never holds",
        "date-as-subtraction": "2026-10-05, which is the number 2011",
        "costly-filter": "a filter that no index decides",
        "exponential": "all combinations of a group, which are very many",
        "unbounded": "what waits without an end, for lack of a window",
        "or-without-parentheses": "OR beside an operator that binds tighter",
    }
)

CODES: Mapping[str, str] = MappingProxyType({**SYNTAX, **STATIC, **PATTERNS, **WARNINGS})
