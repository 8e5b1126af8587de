"""What scripts of pages ask for: an event with every poll, and the points of charts."""

import asyncio
from typing import Final

from aiohttp import web

from roquet.client.arguments import utc
from roquet.clock import SystemClock
from roquet.dashboard.errors import BadInput
from roquet.dashboard.history import SeriesKey
from roquet.dashboard.pages.rendering import DASHBOARD
from roquet.dashboard.prometheus import Answer, step_of

VIEWER_COUNT_MAX: Final = 500
# A proxy on the way would close a silent connection.
_KEEP_ALIVE_S: Final = 15.0
_DAY_S: Final = 86400.0
_SPAN_S: Final = {"10m": 600.0, "2h": 7200.0, "24h": _DAY_S, "7d": 7 * _DAY_S, "30d": 30 * _DAY_S}
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
    viewers.add(response)
    try:
        await response.prepare(request)
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
    """Times, and one list of values for each of `what`; and a problem, if there is one.

    Raises BadInput.
    """
    kind, name = request.match_info["kind"], request.query.get("name", "")
    wanted = request.query.get("what", "").split(",")
    span = request.query.get("span", "2h")
    if span not in _SPAN_S or not set(wanted) <= set(_KINDS.get(kind, ())):
        raise BadInput(f"no such chart: {request.path_qs}")
    keys = [SeriesKey(kind, name, what) for what in wanted]
    answers = await asyncio.gather(*(_points(request, key, _SPAN_S[span]) for key in keys))
    series = [dict(each.points) for each in answers]
    times = sorted({time_s for each in series for time_s in each})
    values = ([each.get(time_s) for time_s in times] for each in series)
    problem = next((each.problem for each in answers if each.problem is not None), None)
    return web.json_response({"points": [times, *values], "problem": problem})


async def _points(request: web.Request, key: SeriesKey, span_s: float) -> Answer:
    """What is in memory, and before it what Prometheus has, if there is one."""
    dashboard = request.app[DASHBOARD]
    now_s = utc(SystemClock().now_ms()).timestamp()
    since_s = now_s - span_s
    known = dashboard.poller.history.points(key, since_s)
    first_s = known[0].time_s if known else now_s
    if dashboard.prometheus is None or first_s - since_s < step_of(span_s):
        return Answer(tuple(known))
    snapshot = dashboard.poller.snapshot
    clusters = () if snapshot is None else {each.cluster for each in snapshot.brokers}
    found = await dashboard.prometheus.points(key, clusters, span_s, now_s)
    earlier = tuple(each for each in found.points if each.time_s < first_s)
    return Answer(earlier + tuple(known), found.problem)


def define(app: web.Application) -> None:
    app[_VIEWERS] = set()
    app.add_routes((web.get("/events", events), web.get("/charts/{kind}", chart)))
