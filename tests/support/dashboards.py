"""A dashboard beside the test's own cluster, and what asks it over HTTP."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from roquet.client.admin.servers import AdminOptions
from roquet.dashboard.web.server import DashboardConfig, serve_dashboard
from roquet.protocol.host import Address

# Polls of a test are quick.
POLL_S = 0.2
_TOKEN = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser without scripts: it keeps cookies, follows no redirects, and reads forms."""

    session: aiohttp.ClientSession
    base: str

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(
            self.base + path, headers={"Accept": "text/html", **headers}, allow_redirects=False
        ) as answer:
            return answer.status, await answer.text()

    async def post(
        self, path: str, fields: dict[str, str], *, token: str = "", **headers: str
    ) -> tuple[int, str]:
        """Its status, and where it leads or what it says."""
        async with self.session.post(
            self.base + path,
            data={"csrf": token, **fields},
            headers=headers,
            allow_redirects=False,
        ) as answer:
            return answer.status, answer.headers.get("Location") or await answer.text()

    async def next_poll(self) -> None:
        """Returns when the cluster was polled, or examined, once more."""
        async with self.session.get(self.base + "/events") as answer:
            await answer.content.readline()

    async def token(self, path: str) -> str:
        """Of the forms of a page."""
        found = _TOKEN.search((await self.get(path))[1])
        assert found is not None, f"{path} has no form"
        return found[1]


@asynccontextmanager
async def dashboard(
    name_server: str,
    *,
    allows_changes: bool = False,
    password_file: Path | None = None,
    host: str = "127.0.0.1",
    prometheus: str | None = None,
    options: AdminOptions | None = None,
) -> AsyncIterator[Visitor]:
    config = DashboardConfig(
        place=Address(host, 0),
        name_server=name_server,
        options={"timeout_s": 2.0, **(options or {})},
        allows_changes=allows_changes,
        password_file=password_file,
        poll_s=POLL_S,
        prometheus=prometheus,
    )
    async with (
        serve_dashboard(config) as place,
        # Cookies of addresses that are no names are kept, too.
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        visitor = Visitor(session, f"http://127.0.0.1:{place.port}")
        if password_file is None:
            await visitor.next_poll()
        yield visitor
