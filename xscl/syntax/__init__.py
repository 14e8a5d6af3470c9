"""From text to a syntax tree and back: lexer, parser, printer, and hints for those who come from
elsewhere."""
