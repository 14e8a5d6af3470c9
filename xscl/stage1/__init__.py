"""Stage 1: one automaton for the tree patterns of all queries; documents in, witnesses out."""
