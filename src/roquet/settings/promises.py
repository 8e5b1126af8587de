"""Settings that promise what a server does not do: refused, never skipped.

Whoever sets `aclEnable=true` believes that strangers are kept out. A warning among others would
not shake that belief, so the server does not start, and says what to do instead.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from roquet.errors import RoquetError
from roquet.settings.truth import read_truth

_SHOWN_SIZE_MAX: Final = 150


class Promise(msgspec.Struct, frozen=True):
    """`is_made` tells whether a text, without blanks around it, makes it."""

    is_made: Callable[[str], bool]
    what: str
    remedy: str


class PromiseNotKept(RoquetError):
    def __init__(self, key: str, text: str, promise: Promise) -> None:
        super().__init__(
            f"{key}={text[:_SHOWN_SIZE_MAX]!r} promises {promise.what}, "
            f"and this server cannot keep that: {promise.remedy}"
        )
        self.key = key
        self.text = text
        self.promise = promise


def refuse_what_is_not_kept(promises: Mapping[str, Promise], settings: Mapping[str, str]) -> None:
    """Raises PromiseNotKept for the first setting that promises what is not kept.

    Settings of encrypted connections that are obeyed are not among `settings` any more.
    """
    for key, text in settings.items():
        promise = promises.get(key) or (TLS if is_about_tls(key) else None)
        if promise is not None and promise.is_made(text.strip()):
            raise PromiseNotKept(key, text, promise)


def is_about_tls(key: str) -> bool:
    """Whoever misspells such a key believes that others cannot listen."""
    return key.lower().startswith("tls")


def is_false(text: str) -> bool:
    return not read_truth(text)


def is_more_than_one(text: str) -> bool:
    """What is no number is not taken for one, either."""
    return text not in ("", "0", "1")


def is_anything(text: str) -> bool:
    return bool(text)


def is_other_than(*harmless: str) -> Callable[[str], bool]:
    return lambda text: text.lower() not in harmless


TLS: Final = Promise(
    is_other_than("", "false", "disabled"),
    "encrypted connections",
    "the keys for that are tls.server.mode, tls.enable and others, which docs/security.md lists",
)
