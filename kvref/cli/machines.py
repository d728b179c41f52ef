"""Which machines `kvref fuzz` runs on a target, and what each of them has done."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kvref.campaign import LOOK_EVERY, REQUESTS_LOOK_EVERY, Factory, Totals
from kvref.laws import LAWS
from kvref.registry import UnknownTarget, load
from kvref.requests.laws import REQUEST_LAWS
from kvref.requests.life import life
from kvref.requests.target import RequestTargetFactory
from kvref.situations.counting import Counting

__all__ = ["Machine", "MachineChoice", "machines_of"]


class MachineChoice(StrEnum):
    """The values of `--machine`."""

    manager = "manager"
    requests = "requests"
    both = "both"


@dataclass
class Machine:
    """One machine on one target.

    Attributes:
        seconds: how long it ran.
        counting: counts what it exercises, if anything does.
    """

    name: str
    factory: Factory
    laws: dict[str, str]
    look_every: int
    totals: Totals = field(default_factory=Totals)
    seconds: float = 0.0
    counting: Counting | None = None


def machines_of(target: str, choice: MachineChoice | None, look_every: int | None) -> list[Machine]:
    """The machines to be run: by default those that the target offers.

    A bare manager offers no requests; asked for by name, they are the reference life over it.
    """
    factory = load(target)
    found = []
    if isinstance(factory, RequestTargetFactory):
        if choice not in (None, MachineChoice.requests):
            raise UnknownTarget(f"target {target!r} runs whole requests alone: --machine requests")
        requests: RequestTargetFactory | None = factory
    else:
        if choice is not MachineChoice.requests:
            found.append(Machine("manager", factory, LAWS, look_every or LOOK_EVERY))
        requests = factory.requests
        if requests is None and choice in (MachineChoice.requests, MachineChoice.both):
            requests = life(factory)
    if requests is not None and choice is not MachineChoice.manager:
        every = look_every or REQUESTS_LOOK_EVERY
        found.append(Machine("requests", requests, REQUEST_LAWS, every))
    return found
