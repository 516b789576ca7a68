"""From a spec and the counts of a run to a verdict; pure values in, pure values out.

`rule` turns a gate into integer counts, `enough` says whether n questions can carry a verdict at all,
`case` and `decide` apply both to a run, `reasons` says why, `comparability` says which runs may be
compared, `wording` how shares are written.
"""
