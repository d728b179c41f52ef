"""Reads request traces in the format of the Mooncake project (its FAST'25 release).

One JSON object a line: when a request came, how many tokens it had and made, and one id for
each block of its input. Equal ids at the same place after equal ids mean equal tokens; the
tokens themselves are not in the trace.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec

__all__ = ["BLOCK_TOKENS", "TracedRequest", "UnreadableTrace", "read_requests"]

BLOCK_TOKENS = 512
"""Input tokens that one id of a published trace stands for."""

_LONGEST_LINE = 16 * 2**20
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class TracedRequest(msgspec.Struct, frozen=True):
    """One line. Fields that are not named here are passed over: releases add their own.

    Fields:
        timestamp: of its arrival, in milliseconds since the trace began.
        input_length: tokens of the prompt.
        output_length: tokens that were made for it.
        hash_ids: one for each block of the prompt; the last block may be part full.
    """

    timestamp: Annotated[float, msgspec.Meta(ge=0, le=1e15)]
    input_length: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    output_length: _Count
    hash_ids: tuple[_Count, ...]


class UnreadableTrace(Exception):
    """What is wrong with a file, and where. Fields: `path`, `line` (None: the whole), `reason`."""

    def __init__(self, path: Path, line: int | None, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        where = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {reason}")


_DECODER: msgspec.json.Decoder[TracedRequest] = msgspec.json.Decoder(TracedRequest)


def read_requests(
    path: Path, *, limit: int | None = None, block_tokens: int = BLOCK_TOKENS
) -> list[TracedRequest]:
    """The requests of a file, in the order of their arrival.

    Args:
        path: of the file; it is data, and nothing in it is executed.
        limit: read so many lines at most.
        block_tokens: input tokens of a block.

    Raises:
        UnreadableTrace: anything that is wrong with it, with the line.
    """
    try:
        with path.open("rb") as file:
            lines = islice(iter(lambda: file.readline(_LONGEST_LINE), b""), limit)
            requests = [
                _parse(path, number, line, block_tokens) for number, line in enumerate(lines, 1)
            ]
    except OSError as error:
        raise UnreadableTrace(path, None, error.strerror or str(error)) from None
    if not requests:
        raise UnreadableTrace(path, None, "there is no request in it")
    requests.sort(key=lambda request: request.timestamp)
    return requests


def _parse(path: Path, number: int, line: bytes, block_tokens: int) -> TracedRequest:
    if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
        raise UnreadableTrace(path, number, f"longer than {_LONGEST_LINE:,} bytes")
    if not line.strip():
        raise UnreadableTrace(path, number, "an empty line")
    try:
        request = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # A ValidationError says the field; any other error is of the JSON, or of what is none.
        cut = "" if line.endswith(b"\n") else " (the file ends within this line)"
        raise UnreadableTrace(path, number, f"{error}{cut}") from None
    blocks = -(-request.input_length // block_tokens)
    if len(request.hash_ids) != blocks:
        raise UnreadableTrace(
            path,
            number,
            f"`input_length` {request.input_length} is {blocks} blocks of {block_tokens} tokens, "
            f"and `hash_ids` names {len(request.hash_ids)}",
        )
    return request
