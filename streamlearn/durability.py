"""The three policies of durability, by name."""

from __future__ import annotations

from streamlearn.record import Record


class Durability(Record):
    """When a batch is safe: synced before it is acked (always), every so often, or never."""

    policy: str = "always"
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"interval={self.seconds:g}s" if self.policy == "interval" else self.policy
