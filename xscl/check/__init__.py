"""Static checks: names, kinds, ids and streams of queries are resolved, or all errors reported."""
