"""Sessions of browsers, in memory: who is logged in, and what a form has to bring back."""

import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, final

from roquet.clock import Clock

# A session ends after this long without a request, and the oldest ends if there are too many.
SESSION_S_MAX: Final = 12 * 3600
SESSION_COUNT_MAX: Final = 1000
# What a session has previewed and not confirmed.
PLAN_COUNT_MAX: Final = 8

T = TypeVar("T")


@final
class Plans(Generic[T]):
    """Changes that were shown and can be confirmed once, by their numbers."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, T] = OrderedDict()

    def put(self, plan: T) -> str:
        key = secrets.token_urlsafe(9)
        self._plans[key] = plan
        if len(self._plans) > PLAN_COUNT_MAX:
            self._plans.popitem(last=False)
        return key

    def take(self, key: str) -> T | None:
        return self._plans.pop(key, None)


@dataclass(slots=True)
class Session:
    """`csrf` is in every form that this session was given, and no other site can know it."""

    key: str
    csrf: str
    user: str | None
    used_ms: int
    # Of the last change, shown with the next page: whether it was made, and a text.
    notice: tuple[bool, str] | None = None
    plans: Plans[object] = field(default_factory=Plans)

    def is_csrf(self, given: str) -> bool:
        return hmac.compare_digest(self.csrf.encode(), given.encode(errors="replace"))


@final
class Sessions:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The one that was used least recently comes first.
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def open(self, user: str | None) -> Session:
        """A new key with every login: one that an attacker planted is worth nothing."""
        session = Session(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), user, self._clock.now_ms()
        )
        self._sessions[session.key] = session
        if len(self._sessions) > SESSION_COUNT_MAX:
            self._sessions.popitem(last=False)
        return session

    def find(self, key: str | None) -> Session | None:
        session = self._sessions.get(key or "")
        if session is None:
            return None
        now_ms = self._clock.now_ms()
        if now_ms - session.used_ms > SESSION_S_MAX * 1000:
            self.close(session)
            return None
        session.used_ms = now_ms
        self._sessions.move_to_end(session.key)
        return session

    def close(self, session: Session) -> None:
        self._sessions.pop(session.key, None)
