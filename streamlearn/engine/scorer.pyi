from typing_extensions import Buffer

from streamlearn.engine.block import Block

def is_sound(ids: Buffer, weights: Buffer, largest: float = ...) -> bool: ...

class Scorer:
    """Predicts with sparse weights given as bytes (int64 ids, float64 weights)."""

    def __init__(self, ids: Buffer, weights: Buffer, bias: float) -> None: ...
    def margins(self, block: Block) -> bytearray: ...
