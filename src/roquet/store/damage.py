"""What is found damaged. It is reported, and never handed out."""

import msgspec


class Damage(msgspec.Struct, frozen=True):
    """A place in the log where a queue says a message is, and none is found."""

    physical_offset: int
    reason: str


class DamagedRange(msgspec.Struct, frozen=True):
    """Bytes of the log that hold no good record, with good ones after them."""

    start: int
    end: int
    reason: str


class Fault(msgspec.Struct, frozen=True):
    """What is wrong: with which part of a store, and where in it. For people."""

    part: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.part}: {self.place}: {self.reason}"
