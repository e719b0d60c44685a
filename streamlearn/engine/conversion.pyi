class Conversion:
    """One snapshot in the making; used by compiled code only."""

    def __init__(self) -> None: ...
