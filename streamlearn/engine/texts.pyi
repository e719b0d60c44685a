from typing_extensions import Buffer

from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser

class Texts:
    """Texts to be read behind what a block holds, in their order."""

    def __init__(
        self, parser: Parser, texts: list[Buffer], before: list[int], block: Block
    ) -> None: ...
    def begin(self) -> None: ...
    def marks(self) -> list[tuple[int, int, bool]]: ...
