"""What can be wrong with rows that are to become messages.

BadMessage
└── UnfitRow             a row cannot be a message
    └── BadProperty    ... because of one of its properties
TooLarge
└── RowTooLarge        a row alone is over a limit
RoquetError
└── BadColumn          a column is missing, or of a type that cannot be written
"""

from roquet.errors import RoquetError
from roquet.protocol.errors import BadMessage, TooLarge


class UnfitRow(BadMessage):
    """A row that cannot become a message; the others were not looked at."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row = row
        self.reason = reason


class BadProperty(UnfitRow):
    """A property that would not be read back as it is."""

    def __init__(self, row: int, name: str, value: str) -> None:
        super().__init__(row, f"property {name!r} cannot be {value!r}")
        self.name = name
        self.value = value


class RowTooLarge(TooLarge):
    """A row that does not fit even alone; the others were not looked at."""

    def __init__(self, row: int, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} of row {row}", size, limit)
        self.row = row


class BadColumn(RoquetError):
    """A column that messages cannot be made of."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"column {name!r} {reason}")
        self.name = name
        self.reason = reason
