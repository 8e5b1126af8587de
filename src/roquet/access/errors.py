"""Errors about accounts.

RoquetError
├── BadRules        a file of accounts is invalid; the rules in force stay
├── RulesNotSaved   the file cannot be written; nothing has changed
├── UnknownAccount  no account has this access key
├── UnknownUser     no user has this name
└── UnknownPolicy   the user has no policies
"""

from pathlib import Path

from roquet.errors import RoquetError


class BadRules(RoquetError):
    """`reason` never has a secret in it."""

    def __init__(self, path: Path | None, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path is not None else reason)
        self.path = path
        self.reason = reason


class RulesNotSaved(RoquetError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is unchanged: {reason}")
        self.path = path
        self.reason = reason


class UnknownAccount(RoquetError):
    def __init__(self, access_key: str) -> None:
        super().__init__(f"no account has the access key {access_key[:100]!r}")
        self.access_key = access_key


class UnknownUser(RoquetError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no user has the name {name[:100]!r}")
        self.name = name


class UnknownPolicy(RoquetError):
    def __init__(self, name: str) -> None:
        super().__init__(f"user {name[:100]!r} has no policies")
        self.name = name
