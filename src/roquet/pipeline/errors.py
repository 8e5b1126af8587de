"""What can go wrong between Spark and RocketMQ.

    RoquetError
      PipelineError
        BadOption           a value that an option cannot have, or two that contradict each other
          UnknownOption     no option has this name
        BadSchema           columns that messages or lakes do not have, or that have another type
        DataLoss            messages that a query still needed are gone
        DamagedStore        a store directory with damage in it, and a reader that minds
        BadRow              a row that cannot become a message
        NotAllEnded         messages of a committed batch that brokers still keep back
        BadLake             a directory that is no lake of ours, or one that others wrote to

Spark shows the text of an error from its Python processes and little else, so each of them says
in one line what is wrong and what to do.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roquet.errors import RoquetError

# Of many damages, as many are spelled out.
_DAMAGES_SHOWN: Final = 10


class PipelineError(RoquetError):
    """The root of what this room raises on purpose."""


class BadOption(PipelineError):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"option {name!r}: {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[type["BadOption"], tuple[str, str]]:
        return BadOption, (self.name, self.reason)


class UnknownOption(BadOption):
    def __init__(self, name: str, suggestion: str | None) -> None:
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(name, f"there is no such option{hint}")
        self.suggestion = suggestion

    def __reduce__(self) -> tuple[type["BadOption"], tuple[str, str]]:
        return BadOption, (self.name, self.reason)


class BadSchema(PipelineError):
    """The columns that were asked for are not those of messages, or of a lake."""


class DataLoss(PipelineError):
    """Messages between where a query is and where a queue begins, or a topic that is another one.

    `failOnDataLoss=false` goes on without them.
    """

    def __init__(self, losses: Sequence[str]) -> None:
        super().__init__(
            f"{'; '.join(losses)}. What was lost cannot be read again: to go on without it,"
            " set failOnDataLoss to false"
        )
        self.losses = tuple(losses)

    def __reduce__(self) -> tuple[type["DataLoss"], tuple[tuple[str, ...]]]:
        return DataLoss, (self.losses,)


class DamagedStore(PipelineError):
    """Parts of a store directory that are no messages any more, and a query that minds.

    `onDamage=skip` reads what is whole. `size` is that of the parts of the log, in bytes.
    """

    def __init__(self, root: Path | str, damages: Sequence[str], size: int = 0) -> None:
        shown = "; ".join(damages[:_DAMAGES_SHOWN])
        left = len(damages) - _DAMAGES_SHOWN
        more = f"; and {left} more" if left > 0 else ""
        counted = f"{len(damages)} damaged" + (f", {size} bytes of the log" if size else "")
        self.what = f"{root}: {counted}: {shown}{more}"
        super().__init__(f"{self.what}. To read what is whole, set onDamage to skip")
        self.root = root
        self.damages = tuple(damages)
        self.size = size

    def __reduce__(self) -> tuple[type["DamagedStore"], tuple[Path | str, tuple[str, ...], int]]:
        return DamagedStore, (self.root, self.damages, self.size)


class BadRow(PipelineError):
    """A row of a DataFrame that cannot become a message."""


class NotAllEnded(PipelineError):
    """The batch is committed; brokers deliver the rest when they are told, or ask."""

    def __init__(self, what: str, count: int, reason: str) -> None:
        super().__init__(
            f"{what} is committed, but {count} of its messages may not be delivered yet"
            f" ({reason}): run it again to deliver them; nothing will be sent twice"
        )
        self.what = what
        self.count = count
        self.reason = reason

    def __reduce__(self) -> tuple[type["NotAllEnded"], tuple[str, int, str]]:
        return NotAllEnded, (self.what, self.count, self.reason)


class BadLake(PipelineError):
    """The directory is no lake of ours, or not in the state that its log speaks of."""
