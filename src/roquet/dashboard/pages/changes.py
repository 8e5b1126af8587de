"""What changes have in common: fields of forms, their outcome, and the note of who made them."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from roquet.client.errors import ClientError
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages.rendering import DASHBOARD
from roquet.dashboard.web.guard import SESSION


async def change(
    request: web.Request,
    what: str,
    act: Callable[[], Awaitable[str]],
    back: str,
    done: str | None = None,
) -> web.Response:
    """Makes the change and leads to `done`, or with the reason of a failure to `back`.

    `act` returns what was done, for people. Every attempt is noted. The cluster is polled at once,
    so that the next page shows it.
    """
    dashboard, session = request.app[DASHBOARD], request[SESSION]
    remote = request.remote or "unknown"
    try:
        text = await act()
    except (ClientError, BadInput) as error:
        dashboard.audit.note(session.user, remote, what, str(error))
        session.notice = (False, str(error))
        return _to(back)
    dashboard.audit.note(session.user, remote, what)
    session.notice = (True, text)
    await dashboard.poller.poll()
    return _to(done or back)


def _to(place: str) -> web.Response:
    return web.Response(status=303, headers={"Location": place})


async def field(request: web.Request, name: str, *, is_needed: bool = True) -> str:
    """Raises BadInput."""
    value = (await request.post()).get(name, "")
    if not isinstance(value, str) or (is_needed and not value.strip()):
        raise BadInput(f"{name} is missing")
    return value.strip()


async def number(request: web.Request, name: str, smallest: int, largest: int) -> int:
    """Raises BadInput."""
    text = await field(request, name)
    if not (text.isascii() and text.isdigit() and smallest <= int(text[:20]) <= largest):
        raise BadInput(f"{name} must be a whole number from {smallest} to {largest}, not {text!r}")
    return int(text)


async def flag(request: web.Request, name: str) -> bool:
    return bool(await field(request, name, is_needed=False))
