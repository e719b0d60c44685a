from streamlearn.engine.columns import Columns

class Descent:
    """A point, its margins and the steps of the batch methods; used by compiled code only."""

    @property
    def bytes(self) -> int: ...
    def __init__(self, columns: Columns, loss: str, l1: float) -> None: ...
