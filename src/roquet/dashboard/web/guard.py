"""What every request passes before a page sees it.

    1. its Host is this server's: no other name leads here (DNS rebinding)
    2. it is logged in, where that is required
    3. a change comes from a page of ours: its origin, and the token of the session (CSRF)
    4. a change is allowed at all

All responses get headers that forbid inline code, framing and caching.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, final
from urllib.parse import quote, urlsplit

from aiohttp import web

from roquet.clock import Clock
from roquet.dashboard.web.logins import Login
from roquet.dashboard.web.sessions import SESSION_S_MAX, Session, Sessions
from roquet.net.addresses import is_loopback

COOKIE: Final = "roquet_session"
SESSION: Final = web.RequestKey("session", Session)
CSRF_FIELD: Final = "csrf"
LOGIN_PATH: Final = "/login"
LOGOUT_PATH: Final = "/logout"
STATIC_PATH: Final = "/static/"

# Wrong passwords in a minute, of all users together.
FAILURE_COUNT_MAX: Final = 10
_FAILURE_MS: Final = 60_000

_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@final
class Guard:
    """Without a `login` everybody who reaches the server may look."""

    def __init__(
        self, clock: Clock, host: str, login: Login | None, *, allows_changes: bool
    ) -> None:
        self.sessions = Sessions(clock)
        self.login = login
        self.allows_changes = allows_changes
        self._clock = clock
        # A login protects the others: whatever name leads here, its cookies are not ours.
        self._names = _LOCAL_NAMES | {host} if is_loopback(host) else None
        self._failures_ms: deque[int] = deque(maxlen=FAILURE_COUNT_MAX)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._checked(request, handler)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
            self._set_cookie(request, response)
        return response

    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._names is not None and _host_name(request.host) not in self._names:
            raise web.HTTPMisdirectedRequest(text=f"this is not {request.host}")
        if request.path.startswith(STATIC_PATH):
            return await handler(request)
        session = self.sessions.find(request.cookies.get(COOKIE))
        is_anonymous = session is None or session.user is None
        if self.login is not None and is_anonymous and request.path != LOGIN_PATH:
            raise _to_login(request)
        request[SESSION] = session or self.sessions.open(None)
        if request.method not in ("GET", "HEAD"):
            await self._check_change(request)
        return await handler(request)

    async def _check_change(self, request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            raise web.HTTPForbidden(text="the form is of another site")
        token = str((await request.post()).get(CSRF_FIELD, ""))
        if not request[SESSION].is_csrf(token):
            raise web.HTTPForbidden(text="the form is too old: reload its page and try again")
        is_login = request.path in (LOGIN_PATH, LOGOUT_PATH)
        if not is_login and not self.allows_changes:
            raise web.HTTPForbidden(text="read-only: start it with --allow-changes")

    async def log_in(self, request: web.Request, user: str, password: str) -> bool:
        """Whether it is right. Raises HTTPTooManyRequests."""
        assert self.login is not None
        now_ms = self._clock.now_ms()
        if (
            len(self._failures_ms) == FAILURE_COUNT_MAX
            and now_ms - self._failures_ms[0] < _FAILURE_MS
        ):
            raise web.HTTPTooManyRequests(text="too many wrong passwords: wait a minute")
        if not await asyncio.shield(self.login.is_right(user, password)):
            self._failures_ms.append(now_ms)
            return False
        self.sessions.close(request[SESSION])
        request[SESSION] = self.sessions.open(user)
        return True

    def _set_cookie(self, request: web.Request, response: web.StreamResponse) -> None:
        session = request.get(SESSION)
        if session is not None and request.cookies.get(COOKIE) != session.key:
            response.set_cookie(
                COOKIE, session.key, max_age=SESSION_S_MAX, httponly=True, samesite="Strict"
            )


def _host_name(host: str) -> str:
    """Of a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _to_login(request: web.Request) -> web.HTTPException:
    """A page leads to the login and back; what a script asks for is refused."""
    is_page = request.method == "GET" and "text/html" in request.headers.get("Accept", "")
    if is_page and "HX-Request" not in request.headers:
        return web.HTTPSeeOther(f"{LOGIN_PATH}?next={quote(request.path_qs)}")
    return web.HTTPUnauthorized(text="log in first")
