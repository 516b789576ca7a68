"""One command per file; the only room that prints, exits, and maps exceptions to exit codes."""
