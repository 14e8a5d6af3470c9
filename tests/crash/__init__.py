"""Crash tests: the service is killed, runs out of disk space, has damaged files or a wrong clock,
and is upgraded.

`world.py` makes documents, `actors.py` and `receivers.py` use a service as its users do,
`process.py` runs it and `launcher.py` dies in it at named points; `verdict.py` compares what came
out with the brute-force oracle. `episode.py` puts these together; `python -m tests.crash.long` goes
on for long.
"""
