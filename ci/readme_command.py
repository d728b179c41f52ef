"""Print a command of the README as it stands there: `readme_command.py run|test`.

The commands are the fenced blocks that follow the lines `<!-- command: run -->` and
`<!-- command: test -->`, which a reader of the page does not see.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def command(name: str, text: str | None = None) -> str:
    """The block of that name; LookupError if the README has none."""
    page = README.read_text(encoding="utf-8") if text is None else text
    found = re.search(rf"<!-- command: {re.escape(name)} -->\s*```sh\n(.*?)```", page, re.DOTALL)
    if found is None:
        raise LookupError(f"no command named {name!r} in the README")
    return found.group(1)


if __name__ == "__main__":
    sys.stdout.write(command(sys.argv[1]))
