from collections.abc import Callable
from typing import Final, NamedTuple, final

TEXT_IS: Final[int]
TEXT_CONTAINS: Final[int]
TEXT_STARTS: Final[int]
TEXT_ENDS: Final[int]
INT: Final[int]
LONG: Final[int]
DOUBLE: Final[int]
IS_NULL: Final[int]
NOT: Final[int]
ALL: Final[int]
ANY: Final[int]
CONSTANT: Final[int]
EQUAL: Final[int]
LESS: Final[int]
LESS_OR_EQUAL: Final[int]
GREATER: Final[int]
GREATER_OR_EQUAL: Final[int]
SLOT_COUNT: Final[int]

class Step(NamedTuple):
    kind: int
    slot: int = 0
    order: int = 0
    integer: int = 0
    real: float = 0.0
    text: bytes = b""

class Program(NamedTuple):
    names: list[bytes]
    steps: list[Step]
    ends: list[int]

@final
class RecordFilter:
    def __init__(self, program: Program | None, slow: Callable[[bytes], bool]) -> None: ...
    def __call__(self, record: bytes) -> bool: ...
