"""What is found damaged. It is reported, and never handed out."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Damage:
    """A place in the log where a queue says a message is, and none is found."""

    physical_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes of the log that hold no good record, with good ones behind them."""

    start: int
    end: int
    reason: str


class Fault(NamedTuple):
    """What is wrong: with which part of a store, and where in it. For people."""

    part: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.part}: {self.place}: {self.reason}"
