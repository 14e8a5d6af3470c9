"""Bombs: queries and documents that are too much together, beside honest subscriptions."""
