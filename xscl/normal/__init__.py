"""From a resolved query to its template, in the intermediate form (`ir`, `operators`).

    ResolvedQuery
      | normalize        each predicate becomes a filter, a value join or a residual
      |   lower            expressions: namespaces for prefixes, parameters for literals
      |   treepattern      a block as a tree of nodes, each with its definition
      v
    NormalQuery
      | joingraph        filters are folded into definitions; terminals and their ancestors stay
      v
    JoinGraph (a minor)
      | template         canonical numbering of the nodes
      v
    Fitted

`canonical` orders filters, `text` prints definitions, and `bind` puts a query's literals in the
place of parameters. `operators` holds the joins of blocks, and `ir` the nodes of paths, filters,
predicates and SELECT. A new operator of the language, or a new property of a node that a predicate
can use, is a class in one of these two.
"""
