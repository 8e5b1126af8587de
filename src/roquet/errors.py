"""The root of every error that Roquet raises on purpose.

Each package has its own errors below it, next to the code that raises them.
"""

from typing import Any


class RoquetError(Exception):
    """A known failure; the text names the remedy.

    Each can be copied, and pickled: it crosses processes, with its facts, whatever its constructor
    takes.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[RoquetError], args: tuple[Any, ...]) -> RoquetError:
    error = kind.__new__(kind, *args)
    error.args = args
    if isinstance(error, OSError):
        # Its number and text are no members of its dict.
        OSError.__init__(error, *args)
    return error
