"""Judges a witness on a target, and counts what it meets there."""

from __future__ import annotations

from typing import Any

from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.target import RequestTargetFactory
from kvref.situations.counting import Counting
from kvref.situations.tally import Tally
from kvref.situations.witness import Witness
from kvref.target import TargetFactory

__all__ = ["run"]

_SECONDS = 10.0


def run(
    witness: Witness, name: str, factory: TargetFactory | RequestTargetFactory
) -> tuple[Any, Tally]:
    """The judge, after the last operation or the first difference, and what was met.

    `factory` has to be of the witness's machine, and promise such a configuration (`unsuited`);
    CannotBuild if it raises.
    """
    counting = Counting(name, factory.promises)
    watcher = counting.watch(witness.configuration)
    target: Any = factory(witness.configuration)  # type: ignore[arg-type]
    executor: LocalExecutor | LocalRequestExecutor
    judge: Judge | RequestJudge
    if isinstance(factory, TargetFactory):
        executor = LocalExecutor(target, _SECONDS)
        judge = Judge(executor, witness.configuration, factory.promises, listener=watcher)
    else:
        executor = LocalRequestExecutor(target, _SECONDS)
        judge = RequestJudge(
            executor,
            witness.configuration,  # type: ignore[arg-type]
            factory.promises,
            observer=watcher,
        )
    watcher.attach(judge)
    try:
        for operation in witness.operations:
            if judge.apply(operation) is not None:
                break
    finally:
        executor.close()
    counting.count(watcher, judge)
    return judge, counting.tally()
