"""Tables that a benchmark puts into a page, between its marks, with machine, date and command."""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_HEAD_SIZE: Final = 2  # lines above the first row of a table


def write_measured(page: Path, name: str, rows: Sequence[str], command: str) -> None:
    """Between `<!-- measured: NAME -->` and the next `<!-- until here -->` of the page."""
    day = datetime.now(UTC).strftime("%d %B %Y")
    machine = f"{os.cpu_count()} cores, {_cpu_name()}, {day}, `{command}`"
    made = "\n".join(["", *rows, "", f"Measured on {machine}.", ""])
    text, place = _place(page, name)
    start, end = place.span("table")
    page.write_text(f"{text[:start]}{made}\n{text[end:]}", encoding="utf-8")


def measured_tables(page: Path, name: str) -> list[list[str]]:
    """What the page has there: the lines of each table."""
    blocks = _place(page, name)[1]["table"].strip().split("\n\n")
    return [block.splitlines() for block in blocks if block.startswith("|")]


def updated_table(old: Sequence[str], new: Sequence[str], key_size: int) -> list[str]:
    """`new`, and of `old` the rows whose first cells no row of `new` has."""

    def keyed(rows: Sequence[str]) -> dict[tuple[str, ...], str]:
        return {tuple(row.split("|")[1 : 1 + key_size]): row for row in rows[_HEAD_SIZE:]}

    return [*new[:_HEAD_SIZE], *(keyed(old) | keyed(new)).values()]


def _place(page: Path, name: str) -> tuple[str, re.Match[str]]:
    text = page.read_text(encoding="utf-8")
    marks = f"<!-- measured: {re.escape(name)} -->", "<!-- until here -->"
    found = re.search(rf"{marks[0]}\n(?P<table>.*?){marks[1]}", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{page.name} has no place for the table {name}")
    return text, found


def _cpu_name() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else "an unknown processor"
