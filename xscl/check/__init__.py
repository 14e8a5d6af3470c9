"""Names, kinds, ids and streams of queries: what is resolved, or every static error."""
