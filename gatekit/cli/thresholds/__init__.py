"""`gatekit thresholds`: the counts that history supports. One subcommand a file, imported when it is asked for."""
