"""Text to syntax tree and back: lexer, parser, printer, hints for habits from other languages."""
