"""A disk that fails: power cuts that lose or reorder what was not synced, and errors of single writes.

What a process does to the files of a state is watched in the process itself (`interception.py`), so
the databases run as they are. `recording.py` makes of it the files as they may be after a power cut;
`faults.py` answers a call with an error instead of doing it.
"""
