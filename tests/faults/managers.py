"""The broken managers, and managers of requests, by name, for programs that import one."""

from __future__ import annotations

import re

from tests.faults.manager_faults import MANAGER_FAULTS
from tests.faults.request_faults import REQUEST_FAULTS


def __getattr__(name: str) -> type:
    faults = MANAGER_FAULTS | REQUEST_FAULTS
    fault = faults.get(re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower())
    if fault is None or fault.manager is None:
        raise AttributeError(name)
    return fault.manager
