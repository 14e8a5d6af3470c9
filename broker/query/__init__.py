"""From resolved queries to the inputs of the join: compiled once per shape, shared, turned into
SQL.

resolved query -- prepared.compile_query --> Compiled -- catalog.Catalog --> canonical query, edges
                                              template -- conjunctive.conjunctive_query --> SQL
"""
