"""The broken managers by the names of their classes, for programs that import one."""

from __future__ import annotations

import re

from tests.faults.manager_faults import MANAGER_FAULTS


def __getattr__(name: str) -> type:
    fault = MANAGER_FAULTS.get(re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower())
    if fault is None:
        raise AttributeError(name)
    return fault.manager
