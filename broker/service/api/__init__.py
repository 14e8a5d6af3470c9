"""The service over HTTP. It translates, and decides nothing. `app` makes the application."""
