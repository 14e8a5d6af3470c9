"""From resolved queries to what the join runs: compiled once, shared, and turned into SQL.

resolved query -- prepared.compile_query --> Compiled -- catalog.Catalog --> canonical query, edges
                                              template -- conjunctive.conjunctive_query --> SQL
"""
