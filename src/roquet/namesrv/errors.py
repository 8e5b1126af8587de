"""Errors of a name server.

RoquetError
└── NameServerError
    ├── RegistrationRefused  a broker's registration would harm the table: costs the request
    └── NotChangeable        no request may change these options: costs the request
"""

from roquet.errors import RoquetError


class NameServerError(RoquetError):
    """A broker or an operator made a mistake."""


class RegistrationRefused(NameServerError):
    """The broker may register again, in another way.

    `limit` is the one that it is over. `holder` is the address of the broker that has its place,
    in `epoch`.
    """

    def __init__(
        self,
        reason: str,
        *,
        limit: int | None = None,
        holder: str | None = None,
        epoch: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.limit = limit
        self.holder = holder
        self.epoch = epoch


class NotChangeable(NameServerError):
    def __init__(self, names: list[str]) -> None:
        super().__init__(f"cannot be changed while running: {', '.join(names)}")
        self.names = names
