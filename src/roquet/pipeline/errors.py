"""What can go wrong between Spark and RocketMQ.

    RoquetError
      PipelineError
        BadOption           a value that an option cannot have, or two that contradict each other
          UnknownOption     no option has this name
        BadSchema           columns that messages do not have, or that have another type
        DataLoss            messages that a query still needed are gone
        DamagedStore        a store directory with damage in it, and a reader that minds
        BadRow              a row that cannot become a message
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
    """The columns that were asked for are not those of messages."""


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
        self.what = f"{root}: {len(damages)} damaged, {size} bytes of the log: {shown}{more}"
        super().__init__(f"{self.what}. To read what is whole, set onDamage to skip")
        self.root = root
        self.damages = tuple(damages)
        self.size = size

    def __reduce__(self) -> tuple[type["DamagedStore"], tuple[Path | str, tuple[str, ...], int]]:
        return DamagedStore, (self.root, self.damages, self.size)


class BadRow(PipelineError):
    """A row of a DataFrame that cannot become a message."""


class BadLake(PipelineError):
    """The directory is no lake of ours, or not in the state that its log speaks of."""
