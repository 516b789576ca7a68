"""`gatekit history`: the runs that were remembered. One subcommand a file, each imported only when it is asked for."""
