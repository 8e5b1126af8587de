"""Who may see pages and change something: asked over HTTP, as browsers and others do."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.dashboard.web.guard import FAILURE_COUNT_MAX
from roquet.dashboard.web.logins import password_line
from roquet.testing.cluster import Cluster
from tests.support.dashboards import Visitor, dashboard


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    async with Cluster() as cluster, dashboard(cluster.name_server) as found:
        yield found


@pytest.fixture
async def stranger(tmp_path: Path) -> AsyncIterator[Visitor]:
    """Of a dashboard that wants a login."""
    path = tmp_path / "passwords"
    path.write_text(password_line("ada", "right"))
    async with (
        Cluster() as cluster,
        dashboard(cluster.name_server, password_file=path, allows_changes=True) as found,
    ):
        yield found


async def test_pages_forbid_inline_code_frames_and_copies(visitor: Visitor) -> None:
    async with visitor.session.get(visitor.base) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cache-Control"] == "no-store"
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie


async def test_no_other_name_leads_here(visitor: Visitor) -> None:
    status, _ = await visitor.get("/", Host="rebound.example:8088")
    assert status == 421


async def test_nothing_is_changed_unless_it_is_allowed(visitor: Visitor) -> None:
    async with visitor.session.post(visitor.base + "/logout") as answer:
        assert answer.status == 403


async def test_a_page_that_does_not_exist_is_named_and_harmless(visitor: Visitor) -> None:
    status, text = await visitor.get("/no/<script>alert(1)</script>")
    assert status == 404
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text


async def test_a_chart_of_nothing_is_refused(visitor: Visitor) -> None:
    assert (await visitor.get("/charts/broker?what=secrets"))[0] == 400
    status, text = await visitor.get("/charts/cluster?what=put,get&span=10m")
    assert status == 200
    assert json.loads(text)["problem"] is None


async def test_strangers_see_the_login_and_nothing_else(stranger: Visitor) -> None:
    status, _ = await stranger.get("/")
    assert status == 303
    assert (await stranger.get("/events", Accept="text/event-stream"))[0] == 401
    assert (await stranger.get("/", **{"HX-Request": "true"}))[0] == 401
    assert (await stranger.post("/topics", {"name": "t"}))[0] == 401
    status, text = await stranger.get("/login")
    assert status == 200
    assert "broker-a" not in text


async def test_a_login_leads_back_and_its_end_is_one(stranger: Visitor) -> None:
    token = await stranger.token("/login")
    wrong = {"user": "ada", "password": "wrong"}
    assert (await stranger.post("/login", wrong, token=token))[0] == 401
    right = {"user": "ada", "password": "right"}
    done = await stranger.post("/login?next=//evil.example", right, token=token)
    assert done == (303, "/")
    assert (await stranger.get("/"))[0] == 200
    token = await stranger.token("/")
    assert (await stranger.post("/logout", {}, token="other"))[0] == 403
    assert (await stranger.post("/logout", {}, token=token, Origin="http://evil.example"))[0] == 403
    assert (await stranger.post("/logout", {}, token=token))[0] == 303
    assert (await stranger.get("/"))[0] == 303


async def test_passwords_cannot_be_tried_without_end(stranger: Visitor) -> None:
    token = await stranger.token("/login")
    wrong = {"user": "ada", "password": "wrong"}
    for _ in range(FAILURE_COUNT_MAX):
        assert (await stranger.post("/login", wrong, token=token))[0] == 401
    assert (await stranger.post("/login", wrong, token=token))[0] == 429


async def test_each_poll_is_an_event(visitor: Visitor) -> None:
    async with visitor.session.get(visitor.base + "/events") as answer:
        lines = [await answer.content.readline() for _ in range(3)]
    assert lines[0].startswith(b"data: ")
    assert lines[1] == b"\n"
    assert lines[2].startswith(b"data: ")
