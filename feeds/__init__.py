"""The feed edge: from addresses of feeds to numbered documents that survive a crash.

    addresses (`opml`), what is known of each feed (`feed_state`), and when it is due (`schedule`)
      | fetch.Fetcher        polite, bounded HTTP (`transport`, `host_pool`); or local files
      v
    Fetched                  bytes and headers, or a problem
      | adapter.parse_feed   feedparser, driven by `parser`; any RSS or Atom, any bytes
      v
    Channel of Items         one model for all dialects (`item`); problems, or an error
      | poll.Poller, spool.Spool.append      a wave of feeds in one transaction, each item once
      | websub.Subscriber                    the same, for what hubs push (`callback`, `hubs`)
      v
    DocumentRows (`rows`)    numbered, on disk
      | source.FeedSpool     Spark's data source `feed_spool`
      v
    the pipeline

`archive.replay` yields the same rows from snapshots kept in a directory. `sample_server.FeedServer`
serves feeds on the loopback interface, and `samples/` holds feeds to try all this with.
"""
