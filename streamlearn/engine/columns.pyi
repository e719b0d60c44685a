from streamlearn.engine.block import Block

class Columns:
    """The examples of a block by feature."""

    @property
    def bytes(self) -> int: ...
    def __init__(self, block: Block, bias: bool) -> None: ...
