"""Slow dense numpy twins of the learners, to check them against; not fast, not for users."""
