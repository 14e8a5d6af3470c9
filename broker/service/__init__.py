"""The service: one process that accepts documents, matches them and delivers the matches.

publishers, feeds ──> spool ──> pipeline ──> engine ──> mailbox ──> receivers
    intake            (file)    local|spark  (file)     (file)      broker.delivery

service.Service         starts and stops everything below, and gives access to it
core.Core               the files of a state, and the flow of documents through them
intake                  accepts published documents once they are durable
polling, books          fetches feeds; the list of feeds
pipeline.driver         the pipeline's thread, which restarts it after failures
pipeline.local, spark   the pipeline in this process, and the one through Spark
subscriptions, bulk     add, pause, replace and drop subscriptions while documents flow
short_retention         warnings about windows that are longer than documents are kept
channels, letters, feeds    the operations on channels, dead letters and feeds
maintenance             the passing of time, retention, compaction
backup                  backups of a state, and restoring them
api                     all operations over HTTP
"""
