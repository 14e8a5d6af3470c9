"""XSCL: the language and stage 1 of the broker. No I/O, no clock.

    text
      | syntax.parser.parse                 all syntax errors at once
      v
    ast.File  -- format_file -->  canonical text (syntax.printer.format_file)
              -- format_with_comments -->  the same, with the comments of the text
      | check.program.check                 names, kinds, ids, streams; all static errors at once
      v
    Program of ResolvedQuery
      | normal.normalize.normalize          a tree pattern per block, value joins, residuals;
      |                                     literals are parameters from here on (`normal.ir`)
      v
    NormalQuery
      | normal.joingraph.join_graph         the minor of the join graph
      v
    JoinGraph
      | normal.template.template            canonical numbering; constants, windows: parameters
      v
    Template, Fitted                        the input of stage 2: `broker.query`

    document
      | stage1.document.parse_document      bounded, no network, no external entities
      v
    element tree
      | stage1.matcher.Matcher.match        one automaton for the patterns of all queries
      v
    Witness                                 rows (var1, var2, node1, node2, value)

One public function per arrow. Every error in a text is reported as an `XsclError`, whose
diagnostics have a code (`CODES`), a message, a place and often a hint, and can be rendered.
"""

from __future__ import annotations

from xscl import ast
from xscl.check.program import Program, ResolvedQuery, check
from xscl.codes import CODES
from xscl.errors import Diagnostic, Source, Span, XsclError
from xscl.syntax.comments import format_with_comments
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
    "format_with_comments",
    "parse",
]
