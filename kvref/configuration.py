"""How a manager is built for one run."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Configuration", "Policy"]

Policy = Literal["lru", "fifo"]


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments that a target's factory is called with.

    `checked` asks for the mode in which the slots given to an insert are verified.
    """

    page_size: int = 1
    num_pages: int = 8
    policy: Policy = "lru"
    checked: bool = True

    def __post_init__(self) -> None:
        if self.page_size < 1 or self.num_pages < 1:
            raise ValueError(
                f"page_size and num_pages must be at least 1, "
                f"got {self.page_size} and {self.num_pages}"
            )

    @property
    def num_slots(self) -> int:
        """Slots of the pool."""
        return self.num_pages * self.page_size

    def python(self, name: str = "RadixCacheManager") -> str:
        """The constructor call that builds such a manager, of the class of that name."""
        return (
            f'cache = {name}("cpu", page_size={self.page_size}, '
            f'num_slots={self.num_slots}, policy="{self.policy}", checked={self.checked})'
        )
