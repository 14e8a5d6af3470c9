"""Event patterns that are registered: how they come to their documents, and what they publish."""
