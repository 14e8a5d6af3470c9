"""The state on disk: the DuckDB file that is the truth, its versions, and the outbox of matches."""
