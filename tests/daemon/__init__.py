"""A real daemon in a process of its own, over real sockets."""
