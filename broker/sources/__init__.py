"""What lies in files, as rows of documents: XML files and JSON lines.

In: bytes, names and times. Out: rows of schema `documents.SOURCED`. Spark's executors and the local
pipeline run the same functions.
"""
