"""XSCL: the language and stage 1 of the broker. No I/O, no clock.

    text
      | parse            syntax tree (`ast.File`), or all syntax errors
      v
    ast.File  -- format_file --> canonical text
      | check            names, kinds, ids, streams; or all static errors
      v
    Program              resolved queries (`ResolvedQuery`) and warnings

One public function per arrow. Whatever is wrong with a text is an `XsclError`, whose diagnostics
have a code (`CODES`), a message, a place and often a hint, and render themselves.
"""

from __future__ import annotations

from xscl import ast
from xscl.check.program import Program, ResolvedQuery, check
from xscl.codes import CODES
from xscl.errors import Diagnostic, Source, Span, XsclError
from xscl.syntax.parser import parse
from xscl.syntax.printer import format_file

__all__ = [
    "CODES",
    "Diagnostic",
    "Program",
    "ResolvedQuery",
    "Source",
    "Span",
    "XsclError",
    "ast",
    "check",
    "format_file",
    "parse",
]
