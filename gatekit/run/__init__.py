"""One spec, end to end: preflight, engine, questions, observations, verdict, record."""
