"""Keys: who may talk to a daemon, and what each may do there. CURVE keys, in files of their own.

    DIR/server.secret         the daemon's own pair; only the daemon reads it
    DIR/clients/NAME.toml     public key and roles of a client: the allow-list
    anywhere/NAME.secret      the client's pair and the daemon's public key, for --key

Secret files are readable by their owner only, or they are refused. Nothing here is ever logged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import zmq

from streamlearn.errors import CannotCreate, ConfigError, NoInput, UsageError

ROLES = {
    "learn": "learn, and write to the feed",
    "predict": "predict, snapshot, status, config, help, and follow what is published",
    "admin": "everything, and checkpoint and shutdown",
}
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


@dataclass(frozen=True)
class Pair:
    """A key pair; for a client with the public key of its daemon."""

    public: bytes
    secret: bytes
    server: bytes = b""

    def __repr__(self) -> str:
        return "Pair(...)"  # secrets do not end up in logs


@dataclass(frozen=True)
class Allowed:
    """A client on the list."""

    name: str
    public: bytes
    roles: frozenset[str]

    def may(self, role: str) -> bool:
        return role in self.roles or "admin" in self.roles


def new_pair(server: bytes = b"") -> Pair:
    public, secret = zmq.curve_keypair()
    return Pair(public, secret, server)


def write_secret(path: Path, pair: Pair) -> None:
    """A new file for its owner only; never over one that is there."""
    lines = {"public": pair.public, "secret": pair.secret, "server": pair.server}
    text = "".join(f'{name} = "{key.decode()}"\n' for name, key in lines.items() if key)
    write_new(path, text, 0o600)


def write_new(path: Path, text: str, mode: int) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        raise CannotCreate(f"{path}: is there already; keys are never overwritten") from error
    except OSError as error:
        raise CannotCreate(f"{path}: cannot be created: {error.strerror}") from error
    with os.fdopen(file, "w") as stream:
        stream.write(text)


def read_secret(path: Path) -> Pair:
    """A pair from a file that only its owner can read."""
    body = read_toml(path)
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"{path}: others can read this secret; run: chmod 600 {path}")
    keys = {name: key_in(body, name, path) for name in ("public", "secret")}
    server = key_in(body, "server", path) if "server" in body else b""
    return Pair(keys["public"], keys["secret"], server)


def read_toml(path: Path) -> dict[str, object]:
    import tomllib  # only where there are keys

    try:
        return tomllib.loads(path.read_text(encoding="ascii"))
    except FileNotFoundError as error:
        raise NoInput(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a key file: {error}") from error


def key_in(body: Mapping[str, object], name: str, path: Path) -> bytes:
    text = body.get(name)
    if not isinstance(text, str) or not Z85.fullmatch(text):
        raise ConfigError(f"{path}: no {name} key in it")
    return text.encode()


class KeyFolder:
    """The keys of a daemon and of those it lets in."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.clients = self.path / "clients"

    @property
    def server_path(self) -> Path:
        return self.path / "server.secret"

    def server(self) -> Pair:
        if not self.server_path.exists():
            raise NoInput(
                f"{self.path}: no keys there; make some with: streamlearn keys new NAME "
                f"--keys {self.path}"
            )
        return read_secret(self.server_path)

    def allowed(self) -> dict[bytes, Allowed]:
        """The allow-list, by public key."""
        found = {}
        for path in sorted(self.clients.glob("*.toml")):
            body = read_toml(path)
            roles = body.get("roles")
            if not isinstance(roles, list) or not roles or not {*roles} <= {*ROLES}:
                raise ConfigError(f"{path}: roles are a list of {', '.join(ROLES)}")
            public = key_in(body, "public", path)
            found[public] = Allowed(path.stem, public, frozenset(roles))
        return found

    def add(self, name: str, roles: list[str], output: Path) -> None:
        """A new client: its public key on the list, its secret in a file of its own."""
        if not NAME.fullmatch(name):
            raise UsageError(f"{name!r}: a name has letters, digits, '_', '.' and '-', 64 at most")
        if unknown := {*roles} - {*ROLES}:
            raise UsageError(f"no role {min(unknown)!r}; there are {', '.join(ROLES)}")
        entry = self.clients / f"{name}.toml"
        if entry.exists():
            raise CannotCreate(f"{entry}: {name} has a key already; revoke it first")
        try:
            self.clients.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CannotCreate(f"{self.clients}: cannot be created: {error.strerror}") from error
        if not self.server_path.exists():
            write_secret(self.server_path, new_pair())
        pair = new_pair(self.server().public)
        write_secret(output, pair)
        quoted = ", ".join(f'"{role}"' for role in roles)
        write_new(entry, f'public = "{pair.public.decode()}"\nroles = [{quoted}]\n', 0o600)

    def revoke(self, name: str) -> None:
        """Off the list; a running daemon forgets it on SIGHUP."""
        entry = self.clients / f"{name}.toml"
        if not NAME.fullmatch(name) or not entry.exists():
            raise NoInput(f"{self.path}: no client {name!r} on the list")
        entry.unlink()
