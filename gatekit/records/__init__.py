"""The frozen dataclasses that travel between rooms, and how they become canonical JSON and back.

`spec` is what was asked for, `answers` what was seen, `verdict` what follows, `run` the record of all three.
"""
