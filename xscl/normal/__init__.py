"""From a resolved query to its template.

ResolvedQuery -- normalize --> NormalQuery -- join_graph --> JoinGraph (a minor) -- template --> Fitted
"""
