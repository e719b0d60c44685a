"""The command line, each command in a process of its own as a user would run it."""
