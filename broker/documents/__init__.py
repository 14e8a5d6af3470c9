"""Incoming documents: rows from stage 1, admission, the watermark, and dead letters."""
