"""Pages that are made once with every poll, however many viewers ask for them.

They show what the last poll has found and nothing of the one who asks, but for the name of the user
and the token in forms, which is put in for each.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, NamedTuple, final

from aiohttp import web

from roquet.dashboard.pages.rendering import DASHBOARD, language_of
from roquet.dashboard.web.guard import SESSION

# Addresses with different filters, orders and languages.
SHARED_COUNT_MAX: Final = 64
# No page has it.
_TOKEN_PLACE: Final = "\0csrf\0"  # noqa: S105

PageHandler = Callable[[web.Request], Awaitable[web.Response]]


class _SharedKey(NamedTuple):
    path: str
    language: str
    user: str | None


@final
class SharedPages:
    """Those of one version of the cluster."""

    def __init__(self) -> None:
        self._version = -1
        self._texts: dict[_SharedKey, str] = {}

    def find(self, version: int, key: _SharedKey) -> str | None:
        if version != self._version:
            self._version = version
            self._texts.clear()
        return self._texts.get(key)

    def keep(self, version: int, key: _SharedKey, text: str) -> None:
        if version == self._version and len(self._texts) < SHARED_COUNT_MAX:
            self._texts[key] = text


SHARED_PAGES: Final = web.AppKey("shared_pages", SharedPages)


def shared(handler: PageHandler) -> PageHandler:
    """For handlers that ask nothing but the last snapshot."""

    @wraps(handler)
    async def answer(request: web.Request) -> web.Response:
        session, version = request[SESSION], request.app[DASHBOARD].poller.version
        # A notice is for one viewer; a choice of a language sets a cookie.
        if session.notice is not None or "lang" in request.query:
            return await handler(request)
        pages = request.app[SHARED_PAGES]
        key = _SharedKey(request.path_qs, language_of(request), session.user)
        text = pages.find(version, key)
        if text is None:
            response = await handler(request)
            if response.status == 200 and response.text is not None:
                pages.keep(version, key, response.text.replace(session.csrf, _TOKEN_PLACE))
            return response
        return web.Response(text=text.replace(_TOKEN_PLACE, session.csrf), content_type="text/html")

    return answer
