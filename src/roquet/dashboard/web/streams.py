"""What scripts of pages ask for: an event with every poll, and the points of charts."""

import asyncio
from typing import Final

from aiohttp import web

from roquet.client.arguments import utc
from roquet.clock import SystemClock
from roquet.dashboard.errors import BadInput
from roquet.dashboard.history import SeriesKey
from roquet.dashboard.pages.rendering import DASHBOARD

VIEWER_COUNT_MAX: Final = 500
# A proxy on the way would close a silent connection.
_KEEP_ALIVE_S: Final = 15.0
_SPAN_S: Final = {"10m": 600.0, "2h": 7200.0, "24h": 86400.0}
_KINDS: Final = {
    "cluster": ("put", "get", "lag"),
    "broker": ("put", "get", "disk"),
    "topic": ("rate",),
    "group": ("lag", "behind", "rate"),
}
_VIEWERS: Final = web.AppKey("viewers", set[object])


async def events(request: web.Request) -> web.StreamResponse:
    """One line with each poll; pages ask for themselves again then."""
    viewers = request.app[_VIEWERS]
    if len(viewers) >= VIEWER_COUNT_MAX:
        raise web.HTTPServiceUnavailable(text=f"more than {VIEWER_COUNT_MAX} pages are open")
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    )
    await response.prepare(request)
    viewers.add(response)
    try:
        await _send_events(request, response)
    except ConnectionResetError:
        pass  # The page was closed.
    finally:
        viewers.discard(response)
    return response


async def _send_events(request: web.Request, response: web.StreamResponse) -> None:
    poller = request.app[DASHBOARD].poller
    version = poller.version
    while not poller.is_stopped:
        try:
            async with asyncio.timeout(_KEEP_ALIVE_S):
                await poller.changed(version)
        except TimeoutError:
            await response.write(b": still here\n\n")
            continue
        version = poller.version
        await response.write(f"data: {version}\n\n".encode())


async def chart(request: web.Request) -> web.Response:
    """Times, and one list of values for each of `what`. Raises BadInput."""
    kind, name = request.match_info["kind"], request.query.get("name", "")
    wanted = request.query.get("what", "").split(",")
    span = request.query.get("span", "2h")
    if span not in _SPAN_S or not set(wanted) <= set(_KINDS.get(kind, ())):
        raise BadInput(f"no such chart: {request.path_qs}")
    since_s = utc(SystemClock().now_ms()).timestamp() - _SPAN_S[span]
    history = request.app[DASHBOARD].poller.history
    series = [dict(history.points(SeriesKey(kind, name, what), since_s)) for what in wanted]
    times = sorted({time_s for each in series for time_s in each})
    return web.json_response([times, *([each.get(time_s) for time_s in times] for each in series)])


def define(app: web.Application) -> None:
    app[_VIEWERS] = set()
    app.add_routes((web.get("/events", events), web.get("/charts/{kind}", chart)))
