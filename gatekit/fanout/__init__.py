"""Many specs: where and in which order they run, and the one exit code they fold into."""
