"""Subscriptions: the queries, the document from which each matches, their gaps and limits."""
