"""Who subscribes to what, from which document on, and how much of it they want to hear."""
