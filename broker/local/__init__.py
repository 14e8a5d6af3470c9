"""The pipeline in one process, for `broker run --pipeline local`: no Java, and the first match in a
second. Files and the spool go in, matches come out, as with Spark.
"""
