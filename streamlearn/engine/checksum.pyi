from typing_extensions import Buffer

def crc32(data: Buffer, value: int = 0) -> int:
    """What zlib.crc32 says, for long data in a fraction of the time where the processor can."""

class Checksum:
    """The checksum of bytes that come in pieces."""

    def __init__(self) -> None: ...
    def update(self, piece: Buffer) -> None: ...
    @property
    def value(self) -> int: ...
