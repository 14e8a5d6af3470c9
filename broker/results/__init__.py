"""From candidates to matches: their documents, the values that join, and the XML they publish."""
