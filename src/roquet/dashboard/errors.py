"""Errors of the dashboard.

RoquetError
└── DashboardError
    ├── BadPasswordFile     a line of the password file cannot be read, or there is none
    ├── LoginRequired       it was to listen beyond this machine without a login
    ├── NotInstalled        a library of an extra is missing
    └── BadInput            a form or an address has a value that cannot be used
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from roquet.errors import RoquetError

_LIBRARIES: Final = ("aiohttp", "jinja2")


class DashboardError(RoquetError):
    """The dashboard cannot be started, or cannot do what a form asks for."""


class BadPasswordFile(DashboardError):
    """The text names the file, the line and what is expected.

    `line` is its number, from 1, if one of them is to blame.
    """

    def __init__(self, reason: str, path: Path | None = None, line: int | None = None) -> None:
        super().__init__(reason)
        self.path = path
        self.line = line


class NotInstalled(DashboardError):
    """A library of the extra is missing."""

    def __init__(self, library: str, extra: str = "dashboard") -> None:
        super().__init__(f"{library} is not installed: pip install 'roquet[{extra}]'")
        self.library = library
        self.extra = extra


def check_installed() -> None:
    """Raises NotInstalled."""
    for library in _LIBRARIES:
        if find_spec(library) is None:
            raise NotInstalled(library)


def check_lakes_installed() -> None:
    """Their log is read without Spark, but its settings name a form of columns. As above."""
    if find_spec("pyarrow") is None:
        raise NotInstalled("pyarrow", "spark")


class LoginRequired(DashboardError):
    """Every client that reaches it would see all messages."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"listening on {host} requires a login: use --password-file FILE, set credentials of an"
            " account (then accounts of the cluster log in), or listen on 127.0.0.1"
        )
        self.host = host


class BadInput(DashboardError):
    """The text names the field and what it may be."""
