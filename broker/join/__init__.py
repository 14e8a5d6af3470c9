"""The value join of stage 2: documents that share values, and the queries that they satisfy.

witness rows -- records --> Record -- postings --> documents that agree -- signatures --> queries
                                          pair_query, long_search, template_runner --> candidates
"""
