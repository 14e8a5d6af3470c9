"""The service: one process that takes documents, matches them and delivers what it finds.

publishers, feeds ──> spool ──> pipeline ──> engine ──> mailbox ──> receivers
    intake            (file)    local|spark  (file)     (file)      broker.delivery

service.Service    the process: everything below, started and stopped, and what may be asked of it
core.Core          the three files of a state, and the way of documents through them
intake             what publishers send, durable before it is accepted
polling, books     feeds that are fetched, and which
driver, local      the thread of the pipeline, which goes on after a failure; the one without Spark
subscriptions      queries come, go, pause and are replaced while documents flow
channels, letters, feeds    ways out, documents kept aside, feeds
maintenance        time passes, files stay small
backup             copies of a state, and a state from a copy
api                all of it over HTTP
"""
