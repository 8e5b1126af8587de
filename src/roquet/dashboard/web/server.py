"""The server: the pages behind the guard, static files, charts as JSON, and server-sent events."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import ClientSession, web

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.servers import AdminOptions
from roquet.client.errors import ClientError, GroupNotFound, MessageNotFound, TopicNotFound
from roquet.clock import SystemClock
from roquet.dashboard.audit import Audit
from roquet.dashboard.errors import BadInput, LoginRequired
from roquet.dashboard.pages import (
    accounts,
    dead_letters,
    groups,
    messages,
    overview,
    pipelines,
    servers,
    topics,
)
from roquet.dashboard.pages.rendering import DASHBOARD, Dashboard, new_environment, page
from roquet.dashboard.pages.sharing import SHARED_PAGES, SharedPages
from roquet.dashboard.pipelines import LakeReader, LakeWatch
from roquet.dashboard.polling import POLL_S, Poller
from roquet.dashboard.prometheus import Prometheus
from roquet.dashboard.web import streams
from roquet.dashboard.web.guard import (
    LOGIN_PATH,
    LOGOUT_PATH,
    SESSION,
    STATIC_PATH,
    Guard,
    Handler,
)
from roquet.dashboard.web.logins import ClusterAccounts, Login, PasswordFile
from roquet.net.addresses import is_loopback
from roquet.net.service import OnFailure, Services
from roquet.protocol.host import Address

log = logging.getLogger(__name__)

STATIC: Final = Path(__file__).parents[1] / "static"
# A form: a test message with its properties is the largest.
_FORM_SIZE_MAX: Final = 5 << 20
_SHUTDOWN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardConfig:
    """Listens on this machine only, unless there is a login."""

    place: Address
    name_server: str | None
    options: AdminOptions = field(default_factory=AdminOptions)
    allows_changes: bool = False
    password_file: Path | None = None
    poll_s: float = POLL_S
    lakes: tuple[LakeReader, ...] = ()
    prometheus: str | None = None


@asynccontextmanager
async def serve_dashboard(config: DashboardConfig) -> AsyncIterator[Address]:
    """Yields where it listens. Raises LoginRequired, BadPasswordFile, BadInput and OSError."""
    clock = SystemClock()
    guard = Guard(clock, config.place.ip, login_of(config), allows_changes=config.allows_changes)
    async with (
        AsyncAdmin(config.name_server, **config.options) as admin,
        _prometheus(config.prometheus) as prometheus,
    ):
        poller = Poller(admin, config.poll_s)
        lakes = LakeWatch(config.lakes)
        app = _new_app(
            Dashboard(admin, poller, guard, Audit(clock), lakes, prometheus, new_environment())
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await runner.setup()
        try:
            site = web.TCPSite(runner, config.place.ip, config.place.port)
            await site.start()
            async with Services("dashboard") as services:
                services.run("poll", poller.poll_forever, on_failure=OnFailure.RESTART)
                services.run("examine", poller.examine_forever, on_failure=OnFailure.RESTART)
                if config.lakes:
                    services.run("lakes", lakes.read_forever, on_failure=OnFailure.RESTART)
                host, port, *_ = runner.addresses[0]
                yield Address(str(host), int(port))
        finally:
            poller.stop()
            await runner.cleanup()


@asynccontextmanager
async def _prometheus(address: str | None) -> AsyncIterator[Prometheus | None]:
    """Raises BadInput."""
    if address is None:
        yield None
        return
    async with ClientSession() as session:
        prometheus = Prometheus(address, session)
        try:
            yield prometheus
        finally:
            await prometheus.close()


def login_of(config: DashboardConfig) -> Login | None:
    """Raises LoginRequired and BadPasswordFile."""
    if config.password_file is not None:
        return PasswordFile(config.password_file)
    if is_loopback(config.place.ip):
        return None
    if config.options.get("credentials") is None:
        raise LoginRequired(config.place.ip)
    return ClusterAccounts(config.name_server, config.options)


def _new_app(dashboard: Dashboard) -> web.Application:
    app = web.Application(
        middlewares=[dashboard.guard.middleware, _failures_shown], client_max_size=_FORM_SIZE_MAX
    )
    app[DASHBOARD] = dashboard
    app[SHARED_PAGES] = SharedPages()
    app.add_routes([web.static(STATIC_PATH, STATIC)])
    app.add_routes(
        [
            web.get(LOGIN_PATH, _login_page),
            web.post(LOGIN_PATH, _log_in),
            web.post(LOGOUT_PATH, _log_out),
        ]
    )
    streams.define(app)
    for module in (overview, topics, groups, messages, dead_letters, pipelines, servers, accounts):
        app.add_routes(module.ROUTES)
    return app


@web.middleware
async def _failures_shown(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What the cluster refuses, and what a form got wrong, is a page and no traceback."""
    try:
        return await handler(request)
    except (TopicNotFound, GroupNotFound, MessageNotFound) as error:
        return page(request, "failure.html", status=404, is_live=False, failure=str(error))
    except BadInput as error:
        return page(request, "failure.html", status=400, is_live=False, failure=str(error))
    except ClientError as error:
        return page(request, "failure.html", status=502, is_live=False, failure=str(error))
    except web.HTTPNotFound:
        text = f"there is no page {request.path}"
        return page(request, "failure.html", status=404, is_live=False, failure=text)


async def _login_page(request: web.Request) -> web.Response:
    return page(request, "login.html", is_live=False, target=_target(request), failure=None)


async def _log_in(request: web.Request) -> web.Response:
    guard = request.app[DASHBOARD].guard
    if guard.login is None:
        raise web.HTTPNotFound
    form = await request.post()
    user, password = str(form.get("user", "")), str(form.get("password", ""))
    if await guard.log_in(request, user, password):
        log.info("%s has logged in from %s", request[SESSION].user, request.remote)
        # Not raised: the response gets the cookie of the new session.
        return web.Response(status=303, headers={"Location": _target(request)})
    log.warning("a login failed, from %s", request.remote)
    return page(
        request,
        "login.html",
        status=401,
        is_live=False,
        target=_target(request),
        failure="User or password is wrong.",
    )


async def _log_out(request: web.Request) -> web.Response:
    request.app[DASHBOARD].guard.sessions.close(request[SESSION])
    return web.Response(status=303, headers={"Location": "/"})


def _target(request: web.Request) -> str:
    """Where a login leads to: a page of this server, whatever the address contains."""
    wanted = request.query.get("next", "/")
    is_ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if is_ours and wanted.isprintable() else "/"
