"""What a rig did, and what it found wrong."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Final

# More of the same adds nothing.
_SHOWN_MAX: Final = 20


@dataclass
class Findings:
    """`counts` are how much was tried, `figures` what was measured on the way."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def add(self, other: "Findings") -> None:
        """Counts add up; of a figure that both have, the worse one stays."""
        self.counts += other.counts
        self.violations += other.violations
        for name, value in other.figures.items():
            self.figures[name] = max(value, self.figures.get(name, value))

    def text(self) -> str:
        """For people: everything that was counted, and the first violations."""
        counted = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        measured = "".join(f", {name} {value:g}" for name, value in self.figures.items())
        lines = [f"{counted}{measured}; {len(self.violations)} violations"]
        return "\n  ".join([*lines, *self.violations[:_SHOWN_MAX]])


def percentile(values: Iterable[float], percent: int) -> float:
    """The smallest value that so many percent do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0
