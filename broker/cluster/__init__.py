"""Stage 2 on several machines: a coordinator that is the engine, and shards that find matches.

    Arrivals ── coordinator: admits, numbers, stores, does what has to be in one place
        | router: the witness rows of each document to the shards of its pivot values
        v
    segments in a directory that all see ── shards: posting lists, candidates, matches, their text
        |
        v
    coordinator: the shards' matches and its own into the outbox, in the transaction of the batch

The coordinator's state is that of one machine, and is the truth. A shard is a cache of the
segments, which are made again from the state if they are lost.
"""
