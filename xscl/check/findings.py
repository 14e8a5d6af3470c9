"""What a check of a pattern finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from xscl.errors import Diagnostic, Span


@dataclass(frozen=True, slots=True)
class Findings:
    """The errors and the warnings, in the order in which they are found."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.errors.append(Diagnostic(code, message, span, hint))

    def warn(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.warnings.append(Diagnostic(code, message, span, hint, "warning"))
