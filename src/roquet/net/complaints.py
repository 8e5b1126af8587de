"""Complaints about peers: the first of a kind at once, the rest counted once a minute.

A scanner, or a client that tries again and again, must not fill the disk with lines that all
say the same.
"""

import logging
from typing import Final, final

import msgspec

log = logging.getLogger(__name__)

PERIOD_S: Final = 60.0


@final
class _Repeated(msgspec.Struct):
    until_s: float
    count: int = 0
    last: str = ""


@final
class Complaints:
    def __init__(self) -> None:
        self._by_kind: dict[str, _Repeated] = {}

    def say(self, kind: str, complaint: str, now_s: float) -> None:
        """`kind` is what complaints have in common that are to be counted together."""
        repeated = self._by_kind.get(kind)
        if repeated is None:
            self._by_kind[kind] = _Repeated(now_s + PERIOD_S)
            log.warning("%s", complaint)
        else:
            repeated.count += 1
            repeated.last = complaint

    def sum_up(self, now_s: float) -> None:
        """To be called every now and then: says how many were kept back."""
        for kind, repeated in list(self._by_kind.items()):
            if repeated.until_s > now_s:
                continue
            if repeated.count:
                log.warning("%d more times, the last: %s", repeated.count, repeated.last)
                self._by_kind[kind] = _Repeated(now_s + PERIOD_S)
            else:
                del self._by_kind[kind]
