"""What can go wrong in a name server.

RoquetError
└── NameServerError
    ├── RegistrationRefused  a broker's registration would harm the table: costs the request
    ├── NotChangeable        no request may change these settings: costs the request
    └── BadSetting           a setting has a value that cannot be used: the operator's fault
"""

from roquet.errors import RoquetError


class NameServerError(RoquetError):
    """Something a broker or an operator got wrong."""


class RegistrationRefused(NameServerError):
    """The broker may register again, in another way."""


class NotChangeable(NameServerError):
    def __init__(self, names: list[str]) -> None:
        super().__init__(f"cannot be changed while running: {', '.join(names)}")
        self.names = names


class BadSetting(NameServerError):
    def __init__(self, name: str, text: str, wanted: str) -> None:
        super().__init__(f"{name} cannot be {text[:100]!r}, it must be {wanted}")
        self.name = name
        self.text = text
