"""From a resolved query to its template, in the intermediate form (`ir`, `operators`).

    ResolvedQuery
      | normalize        every predicate in its place: filters, value joins, residuals
      |   lower            expressions: namespaces for prefixes, parameters for literals
      |   treepattern      a block as a tree of nodes, each with its definition
      v
    NormalQuery
      | joingraph        what only filters is folded into definitions; terminals and their ancestors
      v
    JoinGraph (a minor)
      | template         canonical numbering of the nodes
      v
    Fitted

`canonical` says in which order filters stand, `text` writes definitions, and `bind` puts a query's
literals in the place of parameters. `operators` are the joins of blocks, and `ir` all that stands
in paths, filters, predicates and SELECT. A new operator of the language, or a new thing that a
predicate says of a node, is a class in one of these two.
"""
