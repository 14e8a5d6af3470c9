"""Why a query has matched, or has not: what `broker why` tells.

    blocks      what a block asks of a document, one condition after the other; rows of a document
    joins       how many pairs of documents two blocks agree on, and what order, window and other
                predicates leave of them
    whole       combinations of a document for each block
    cures       what to write instead
    given       one by one what holds between documents that somebody names
    history     the stored documents, from a snapshot
    explaining  all of it, for one query
    telling     in words

It is worked out anew from the documents that are stored, so it is exact on what is stored and
changes nothing. What comes out (`model`) is plain data.
"""
