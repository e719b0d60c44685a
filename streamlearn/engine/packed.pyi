from typing_extensions import Buffer

from streamlearn.engine.block import Block

HEAD_BYTES: int

def pack(block: Block, position: int, text: int, lines: int, blank: int) -> bytes: ...
def unpack(record: Buffer, block: Block) -> tuple[int, int, int, int]: ...
