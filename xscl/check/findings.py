"""What the checks of a query and of a pattern find."""

from __future__ import annotations

from dataclasses import dataclass, field

from xscl import ast
from xscl.errors import Diagnostic, Span


@dataclass(slots=True)
class Findings:
    """The errors and the warnings, in the order in which they are found."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        hint: str | None = None,
        also: tuple[tuple[str, Span], ...] = (),
    ) -> None:
        self.errors.append(Diagnostic(code, message, span, hint, also=also))

    def warn(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.warnings.append(Diagnostic(code, message, span, hint, "warning"))


@dataclass(slots=True)
class QueryFindings(Findings):
    """The findings about one query, without those nested in it.

    `owner` maps each variable to the index of the block that binds it, in pattern order; `joins`
    are (join, first block of its left side, first of its right side, end); `conjuncts` are the
    predicates that all must hold. `streams` and `prefixes` include those of nested queries.
    """

    owner: dict[str, int] = field(default_factory=dict)
    joins: list[tuple[ast.Join, int, int, int]] = field(default_factory=list)
    conjuncts: list[ast.Expr] = field(default_factory=list)
    streams: set[str] = field(default_factory=set)
    prefixes: set[str] = field(default_factory=set)
