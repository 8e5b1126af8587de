"""What changes have in common: fields of forms, their outcome, and the note of who made them."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from aiohttp import web

from roquet.client.errors import ClientError
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages.rendering import DASHBOARD
from roquet.dashboard.web.guard import SESSION

T = TypeVar("T")


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


def moment_of_field(text: str) -> datetime | None:
    """In UTC unless it has a zone; None for a blank. Raises BadInput."""
    if not text.strip():
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadInput(f"{text!r} is not a time such as 2026-11-15T20:16") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


async def taken_plan(request: web.Request, kind: type[T]) -> T | None:
    """What was previewed and is confirmed now; None if it was before, or is too long ago."""
    found = request[SESSION].plans.take(await field(request, "plan"))
    return found if isinstance(found, kind) else None
