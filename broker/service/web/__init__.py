"""The broker in a browser: its files, and who is signed in.

`sessions.py` has one-time codes and sessions, `pages.py` the files of `static/` as they are sent.
The page itself uses the HTTP API and nothing else; its routes are in `broker/service/api/web.py`.
"""
