"""From a spec, the answers of a run and the earlier runs to a verdict; pure values in, pure values out.

`exchangeable` says which earlier runs are the norm, `rung` which rule they support, `rule`, `from_history` and
`locked` make it, `criterion` makes it ready to be asked, `trial` puts one run before it, `decide` gives the verdict
and `reasons` says why. `recompute` derives a lock, `lock_change` compares two, `matrix_prior` pools many series,
`drift` charts one. `derivation` and `sensitivity` explain a stored verdict, `audit` a gate without a run.
"""
