"""What survives: the service killed, starved of disk, damaged, put off its clock, upgraded.

`world.py` makes documents, `actors.py` and `receivers.py` use a service as its users do,
`process.py` runs it and `launcher.py` dies in it at named points; `verdict.py` compares what came
out with the brute-force oracle. `episode.py` puts these together; `python -m tests.crash.long` goes
on for long.
"""
