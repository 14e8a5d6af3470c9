"""Spark as the broker's engine: a session that brings its own Java, sources, the pipeline.

    session.start_session()              one JVM, no Java needed on the machine
    sources.*                            streaming sources -> DataFrames of documents
    pipeline.run_pipeline(...)           documents -> stage 1 (executors) -> stage 2 (this process)

`documents` and `jsonlines` hold what runs on the executors and can be used without Spark.
"""
