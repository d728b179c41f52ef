"""The operations on whole requests. A request is named by the index of the `Begin` that made it."""

from __future__ import annotations

import msgspec

from kvref.operations import Carried

__all__ = [
    "Abort",
    "Append",
    "Begin",
    "Commit",
    "Extend",
    "Finish",
    "Flush",
    "Preempt",
    "RequestOperation",
    "Store",
]


class _RequestOperation(
    msgspec.Struct,
    frozen=True,
    tag_field="do",
    tag=str.lower,
    omit_defaults=True,
    forbid_unknown_fields=True,  # a misspelt field would be dropped, and mean another program
):
    def python(self, index: int) -> str:
        """One line of Python that does the same, as the operation number `index`."""
        raise AssertionError("unreachable: each operation has its own")

    def __str__(self) -> str:
        return self.python(-1)


class Begin(_RequestOperation, frozen=True):
    """Admit a request, with slots for at most `max_tokens` of the tokens left to compute."""

    tokens: tuple[int, ...]
    namespace: str | None = None
    max_tokens: int | None = None
    carried: Carried = "int64"

    def python(self, index: int) -> str:
        """As `r3 = requests.begin(ids([0, 1, 2]), max_tokens=2)`."""
        left = f"r{index} = " if index >= 0 else ""
        keywords = "".join(
            f", {name}={value!r}"
            for name, value in (("namespace", self.namespace), ("max_tokens", self.max_tokens))
            if value is not None
        )
        extra = ", dtype=torch.int32" if self.carried.startswith("int32") else ""
        extra += ", stride=2" if self.carried.endswith("strided") else ""
        return f"{left}requests.begin(ids({list(self.tokens)}{extra}){keywords})"


class Extend(_RequestOperation, frozen=True):
    """Slots for `count` more tokens.

    `ahead` are the values of those that lie beyond what the request knows by then: the engine
    has launched the step and gets them late. They are stored as these, and told by `Append`.
    """

    request: int
    count: int = 1
    ahead: tuple[int, ...] = ()

    def python(self, index: int) -> str:
        """As `r3.extend(1)`."""
        late = f"  # their values come late: {list(self.ahead)}" if self.ahead else ""
        return f"r{self.request}.extend({self.count}){late}"


class Append(_RequestOperation, frozen=True):
    """Tell the request the values of its next tokens; where some went ahead, these first."""

    request: int
    tokens: tuple[int, ...]

    def python(self, index: int) -> str:
        """As `r3.append([5])`."""
        return f"r{self.request}.append({list(self.tokens)})"


class Store(_RequestOperation, frozen=True):
    """Store K and V of all tokens that have slots and no K and V yet, on every layer."""

    request: int

    def python(self, index: int) -> str:
        """As `store(r3)`."""
        return f"store(r{self.request})"


class Commit(_RequestOperation, frozen=True):
    """Publish what is stored while the request goes on."""

    request: int

    def python(self, index: int) -> str:
        """As `r3.commit()`."""
        return f"r{self.request}.commit()"


class Finish(_RequestOperation, frozen=True):
    """Publish what is stored, and give everything back."""

    request: int

    def python(self, index: int) -> str:
        """As `r3.finish()`."""
        return f"r{self.request}.finish()"


class Abort(_RequestOperation, frozen=True):
    """Give everything back, and publish nothing more."""

    request: int

    def python(self, index: int) -> str:
        """As `r3.abort()`."""
        return f"r{self.request}.abort()"


class Preempt(_RequestOperation, frozen=True):
    """Give everything back, to begin again later."""

    request: int

    def python(self, index: int) -> str:
        """As `r3.preempt()`."""
        return f"r{self.request}.preempt()"


class Flush(_RequestOperation, frozen=True):
    """Empty the cache; refused while a request uses any of it."""

    def python(self, index: int) -> str:
        """As `requests.flush()`."""
        return "requests.flush()"


RequestOperation = Begin | Extend | Append | Store | Commit | Finish | Abort | Preempt | Flush
