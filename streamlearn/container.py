"""The one file format: a msgpack map that ends in its own checksum. Knows no model, no learner.

    {"format": ..., "version": 1, <any keys>, "checksum": crc32 of every byte before this number}

No code is ever run by loading: maps, lists, strings, numbers and bytes are all there can be.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from reprlib import repr as short
from typing import Any, BinaryIO

import msgpack

from streamlearn.engine.checksum import crc32
from streamlearn.errors import CannotCreate, IoFailure, ModelError, NoInput

VERSION = 1
LONG = 1 << 16  # bytes; from there on msgpack writes them as bin 32, too


def pack(kind: str, body: Mapping[str, Any]) -> bytes:
    """The bytes of a container."""
    return b"".join(pieces(kind, body))


def pieces(kind: str, body: Mapping[str, Any]) -> list[bytes]:
    """The same, piece by piece: long columns stay where they are."""
    packer = msgpack.Packer()
    found = [packer.pack_map_header(len(body) + 3)]
    for key, value in (("format", kind), ("version", VERSION), *body.items()):
        found.append(packer.pack(key))
        if type(value) is bytes and LONG <= len(value) < 1 << 32:
            found += (b"\xc6" + struct.pack(">I", len(value)), value)  # bin 32
        else:
            found.append(packer.pack(value))
    found.append(packer.pack("checksum"))
    check = 0
    for piece in found:
        check = crc32(piece, check)
    return [*found, b"\xce" + struct.pack(">I", check)]


def unpack(data: bytes, kind: str, name: str) -> dict[str, Any]:
    """The map inside, or a ModelError that says what is wrong with the file."""
    if len(data) < 6 or data[-5] != 0xCE:
        raise ModelError(f"{name}: not a {kind} file, or cut short")
    if struct.unpack(">I", data[-4:])[0] != crc32(data[:-5]):
        raise ModelError(f"{name}: damaged: the checksum does not fit its {len(data)} bytes")
    try:
        body = unpacked(data)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise ModelError(f"{name}: not a {kind} file: {error}") from error
    if not isinstance(body, dict) or body.get("format") != kind:
        found = body.get("format") if isinstance(body, dict) else type(body).__name__
        raise ModelError(f"{name}: is {short(found)}, expected {kind!r}")
    if body.get("version") != VERSION:
        version = short(body.get("version")).strip("'")  # never deeper than it can be shown
        raise ModelError(
            f"{name}: written by a newer streamlearn (format version {version}, "
            f"this one reads {VERSION}); upgrade to read it"
        )
    return body


def unpacked(data: bytes | memoryview) -> Any:
    """The one object of these bytes, for memory in proportion to them.

    They are walked over first: a list gets all its memory as soon as it says how long it is, and a
    thousand of them inside each other, each as long as the file, ask for 8 kB a byte.
    """
    walker = msgpack.Unpacker(max_buffer_size=max(len(data), 1))
    walker.feed(data)
    walker.skip()
    return msgpack.unpackb(data)


def read_file(path: str, kind: str) -> dict[str, Any]:
    """Read and check a container; '-' is standard input."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else bytes_of(path)
    except FileNotFoundError as error:
        raise NoInput(f"{path}: no such file") from error
    except OSError as error:
        raise NoInput(f"{path}: cannot be read: {error.strerror}") from error
    return unpack(data, kind, path)


def bytes_of(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def write_file(path: str, data: bytes | list[bytes]) -> None:
    """Write all or nothing, in one piece or several; '-' is standard output."""
    parts = data if isinstance(data, list) else [data]
    if path == "-":
        sys.stdout.buffer.writelines(parts)
        sys.stdout.buffer.flush()
        return
    with_atomic_file(path, lambda stream: stream.writelines(parts))


def with_atomic_file(path: str, write: Callable[[BinaryIO], Any]) -> None:
    """Write a temporary file beside it, sync, rename, sync the folder: never half a file.

    A link is followed and stays a link; the mode of a file that is replaced stays too.
    """
    target = os.path.realpath(path)
    special = os.path.abspath(path).startswith(("/dev/", "/proc/"))
    if special or (os.path.exists(target) and not os.path.isfile(target)):  # takes what comes
        try:
            with open(path, "wb") as stream:
                write(stream)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise IoFailure(f"{path}: writing failed: {error.strerror}") from error
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        stream = open(temporary, "wb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise CannotCreate(f"{path}: cannot be created: {error.strerror}") from error
    try:
        with stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        what = f"writing failed: {error.strerror}; nothing was replaced"
        raise IoFailure(f"{path}: {what}") from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)
