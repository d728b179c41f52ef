"""Reading an exception of any manager as a refusal of the contract."""

from __future__ import annotations

import pytest

import kvgpu.errors
from kvref.answers import Raised, from_exception
from kvref.refusals import BUILTIN, Refusal, RefusalKind, Refused, classify, refuse


class NotEvictable(Exception):
    """Of nobody's package: the name is enough."""


class Derived(NotEvictable):
    """A subclass counts as its parent."""


class CacheInUse(ValueError):
    """The name goes before the builtin."""


class Both(NotImplementedError, TypeError):
    """NotImplementedError is a RuntimeError, and more telling than what comes with it."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotEvictable(), RefusalKind.NOT_EVICTABLE),
        (Derived(), RefusalKind.NOT_EVICTABLE),
        (CacheInUse(), RefusalKind.IN_USE),
        (Both(), RefusalKind.UNSUPPORTED),
        (TypeError(), RefusalKind.TYPE),
        (ValueError(), RefusalKind.VALUE),
        (UnicodeDecodeError("utf-8", b"", 0, 0, ""), RefusalKind.VALUE),
        (NotImplementedError(), RefusalKind.UNSUPPORTED),
        (RuntimeError("a stale handle"), None),
        (IndexError(), None),
        (AssertionError(), None),
        (KeyboardInterrupt(), None),
    ],
    ids=repr,
)
def test_an_exception_announces_its_kind(error, kind):
    assert classify(type(error)) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("StaleHandle", RefusalKind.STALE),
        ("ForeignHandle", RefusalKind.FOREIGN),
        ("UnbalancedUnlock", RefusalKind.UNBALANCED),
        ("NotEvictable", RefusalKind.NOT_EVICTABLE),
        ("CacheInUse", RefusalKind.IN_USE),
        ("InvalidType", RefusalKind.TYPE),
        ("InvalidValue", RefusalKind.VALUE),
        ("EvictionUnsupported", RefusalKind.UNSUPPORTED),
    ],
)
def test_the_errors_of_kvgpu_are_read_as_what_they_are(name, kind):
    error = getattr(kvgpu.errors, name)
    assert classify(error) is kind
    assert issubclass(error, BUILTIN[kind])


def test_every_kind_has_a_builtin():
    assert set(BUILTIN) == set(RefusalKind)


def test_a_refusal_reads_with_its_numbers():
    assert str(Refusal(RefusalKind.STALE)) == "refused: stale-handle"
    refusal = Refusal(RefusalKind.NOT_EVICTABLE, {"needed": 3, "evictable": 2})
    assert str(refusal) == "refused: not-evictable (needed=3, evictable=2)"


def test_refuse_raises_it():
    with pytest.raises(Refused, match="stale-handle") as caught:
        refuse(RefusalKind.STALE, cached_len=4)
    assert caught.value.refusal == Refusal(RefusalKind.STALE, {"cached_len": 4})


class TestAnExceptionAsAnAnswer:
    def test_it_keeps_kind_builtins_text_and_numbers(self):
        error = NotEvictable("too much")
        error.needed, error.evictable, error.protected_size = 3, 2, "many"  # type: ignore[attr-defined]
        assert from_exception(error) == Raised(
            RefusalKind.NOT_EVICTABLE, [], "NotEvictable", "too much", {"needed": 3, "evictable": 2}
        )
        assert str(from_exception(error)) == "NotEvictable: too much"

    def test_it_names_each_builtin_that_it_is(self):
        assert from_exception(Both()).builtins == [
            "NotImplementedError", "RuntimeError", "TypeError"
        ]  # fmt: skip

    def test_a_long_text_is_cut(self):
        assert len(from_exception(ValueError("x" * 10_000)).message) == 500
