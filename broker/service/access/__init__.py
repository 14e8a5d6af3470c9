"""Who may do what: tokens with scopes and quotas, what belongs to whom, and the log of changes."""
