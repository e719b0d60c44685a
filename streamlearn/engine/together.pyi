class Hand:
    """One piece of work, for compiled code to fill in."""

    def run(self) -> None: ...
