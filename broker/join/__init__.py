"""Stage 2's search: documents that share values, and the queries that they satisfy together.

witness rows -- records --> Record -- postings --> documents that agree -- signatures --> queries
                                                       pair_query, template_runner --> candidates
"""
