"""Errors between Spark and RocketMQ.

    RoquetError
      PipelineError
        BadOption           a value that an option cannot have, or two that contradict each other
          UnknownOption     no option has this name
          NotShared         a directory of the driver that an executor does not see
        BadSchema           columns that messages or lakes do not have, or that have another type
        RegistryFailed      a schema registry that cannot be reached, or refuses
        DataLoss            messages that a query still needed are gone
        DamagedStore        a store directory with damage, read with onDamage=fail
        BadRow              a row that cannot become a message
        BadQuery            an SQL statement that cannot be run
        BadLake             a directory that is not a lake, or that another program wrote to
        PlanOutdated        another writer added part of what was planned
          SchemaUnknown     messages name schemas that the registry has to be asked for

Spark shows little of an error from its Python processes but its text, so each text has in one
line what is wrong and what to do.
"""

import socket
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from roquet.errors import RoquetError

P = ParamSpec("P")
T = TypeVar("T")

# The number of damages in the text of an error.
_DAMAGES_SHOWN: Final = 10


def without_frames(method: Callable[P, T]) -> Callable[P, T]:
    """For what Spark calls: above the line that has the reason, it would show thirty of code."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except RoquetError as error:
            raise error.with_traceback(None) from None

    return call


class PipelineError(RoquetError):
    """The root of what this package raises on purpose."""


class BadOption(PipelineError):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"option {name!r}: {reason}")
        self.name = name
        self.reason = reason


class UnknownOption(BadOption):
    def __init__(self, name: str, suggestion: str | None) -> None:
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(name, f"unknown option{hint}")
        self.suggestion = suggestion


class NotShared(BadOption):
    """Raised by a task; a directory of the driver is on another machine."""

    def __init__(self, name: str, path: Path) -> None:
        host = socket.gethostname()
        super().__init__(
            name,
            f"executor {host} does not see {path}: it has to be a directory that the driver and"
            " all executors share, at the same path",
        )
        self.path = path
        self.host = host


class BadSchema(PipelineError):
    """Requested columns that messages, or a lake, do not have."""


class RegistryFailed(PipelineError):
    """A schema registry cannot be reached, or does not answer as one."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"the schema registry {url} failed: {reason}. Nothing was skipped: run the job again"
            " when it is back"
        )
        self.url = url
        self.reason = reason


class DataLoss(PipelineError):
    """Messages that a query still needed have expired, or their topic was created again.

    `failOnDataLoss=false` continues without them.
    """

    def __init__(self, losses: Sequence[str]) -> None:
        super().__init__(
            f"{'; '.join(losses)}. Lost messages cannot be read again: to continue without them,"
            " set failOnDataLoss to false"
        )
        self.losses = tuple(losses)


class DamagedStore(PipelineError):
    """Damaged parts of a store directory.

    `onDamage=skip` reads the intact rest. `size` is that of the damaged parts of the log, in bytes.
    """

    def __init__(self, root: Path | str, damages: Sequence[str], size: int = 0) -> None:
        shown = "; ".join(damages[:_DAMAGES_SHOWN])
        left = len(damages) - _DAMAGES_SHOWN
        more = f"; and {left} more" if left > 0 else ""
        counted = f"{len(damages)} damaged" + (f", {size} bytes of the log" if size else "")
        self.what = f"{root}: {counted}: {shown}{more}"
        super().__init__(f"{self.what}. To read the intact rest, set onDamage to skip")
        self.root = root
        self.damages = tuple(damages)
        self.size = size


class BadRow(PipelineError):
    """A row of a DataFrame that cannot become a message."""


class BadQuery(PipelineError):
    """An SQL statement with a mistake, or one that failed; the text is that of the engine."""


class BadLake(PipelineError):
    """The directory is not a lake, or its files differ from its log."""


class PlanOutdated(PipelineError):
    """Another writer added part of what was planned: plan again, by what the lake has now."""


class SchemaChanged(PlanOutdated):
    """Another job changed how the bodies of a lake are decoded, after this one had started."""


class SchemaUnknown(PlanOutdated):
    """Messages name schemas by keys that tasks did not have: ask the registry, and plan again."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(f"messages were written by other schemas: {', '.join(keys)}")
        self.keys = tuple(keys)
