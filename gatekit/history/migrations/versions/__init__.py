"""The revisions, oldest first. Each holds its tables as they were then: none reads today's definitions."""
