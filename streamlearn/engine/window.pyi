class Window:
    """The features of the recent rows; used by compiled code only."""

    count: int
