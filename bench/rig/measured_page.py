"""Tables that a benchmark puts into a page, between its marks, with machine, date and command."""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path


def write_measured(page: Path, name: str, rows: Sequence[str], command: str) -> None:
    """Between `<!-- measured: NAME -->` and the next `<!-- until here -->` of the page."""
    day = datetime.now(UTC).strftime("%d %B %Y")
    machine = f"{os.cpu_count()} cores, {_cpu_name()}, {day}, `{command}`"
    made = "\n".join(["", *rows, "", f"Measured on {machine}.", ""])
    text = page.read_text(encoding="utf-8")
    region = re.compile(
        rf"(<!-- measured: {re.escape(name)} -->\n).*?(<!-- until here -->)", re.DOTALL
    )
    if not region.search(text):
        raise SystemExit(f"{page.name} has no place for the table {name}")
    page.write_text(
        region.sub(lambda found: f"{found[1]}{made}\n{found[2]}", text), encoding="utf-8"
    )


def _cpu_name() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else "an unknown processor"
