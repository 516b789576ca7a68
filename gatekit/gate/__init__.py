"""The decision: (spec, observations, history) to a verdict. Pure."""
