"""One page for many viewers, with the token of each."""

import re

import aiohttp

from roquet.dashboard.pages.sharing import SHARED_COUNT_MAX, SharedPages, _SharedKey
from roquet.testing.cluster import Cluster
from tests.support.dashboards import Visitor, dashboard

TOKEN = re.compile(r'name="csrf" value="([^"]+)"')
KEY = _SharedKey("/topics", "en", None)


def test_what_was_made_is_kept_until_the_next_poll() -> None:
    pages = SharedPages()
    assert pages.find(1, KEY) is None
    pages.keep(1, KEY, "text")
    assert pages.find(1, KEY) == "text"
    assert pages.find(1, KEY._replace(user="ada")) is None
    assert pages.find(2, KEY) is None
    # It was made of what is old by now.
    pages.keep(1, KEY, "text")
    assert pages.find(2, KEY) is None


def test_only_so_many_are_kept() -> None:
    pages = SharedPages()
    keys = [KEY._replace(path=str(index)) for index in range(SHARED_COUNT_MAX + 1)]
    for key in keys:
        pages.find(1, key)
        pages.keep(1, key, "text")
    assert pages.find(1, keys[-1]) is None
    assert pages.find(1, keys[0]) == "text"


async def test_viewers_share_a_page_and_have_tokens_of_their_own() -> None:
    async with (
        Cluster() as cluster,
        dashboard(cluster.name_server, allows_changes=True) as first,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        second = Visitor(session, first.base)
        tokens = [await each.token("/topics") for each in (first, second, first, second)]
        assert tokens[0] == tokens[2]
        assert tokens[1] == tokens[3]
        assert tokens[0] != tokens[1]
        for visitor, token in ((first, tokens[0]), (second, tokens[1])):
            status, _ = await visitor.post("/topics", {"name": "t"}, token=token)
            assert status == 400


async def test_a_refresh_in_the_background_leaves_the_notice_for_the_next_page() -> None:
    async with (
        Cluster() as cluster,
        dashboard(cluster.name_server, allows_changes=True) as visitor,
    ):
        token = await visitor.token("/topics")
        await visitor.post("/topics/none/delete", {"confirm": "other"}, token=token)
        await visitor.get("/topics", **{"HX-Request": "true"})
        assert "type none to confirm" in (await visitor.get("/topics"))[1]
        assert "type none to confirm" not in (await visitor.get("/topics"))[1]
