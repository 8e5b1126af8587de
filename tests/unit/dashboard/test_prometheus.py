"""Charts that reach further back than memory, by the answers of a small HTTP server."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from roquet.dashboard.errors import BadInput
from roquet.dashboard.history import Point, SeriesKey
from roquet.dashboard.prometheus import (
    POINT_COUNT_MAX,
    Answer,
    Prometheus,
    check_url,
    points_in,
    query_of,
    step_of,
)
from roquet.testing.cluster import Cluster
from tests.support.dashboards import dashboard
from tests.support.ports import free_port

GROUP_LAG = SeriesKey("group", "billing", "lag")
DAY_S = 86400.0


def test_queries_select_one_cluster_and_one_name() -> None:
    assert query_of(GROUP_LAG, ["prod"], 60) == (
        'sum(rocketmq_consumer_lag_messages{consumer_group="billing",cluster=~"prod"})'
    )
    assert query_of(SeriesKey("cluster", "", "put"), (), 300) == (
        'sum(rate(rocketmq_messages_in_total{is_system="false"}[600s]))'
    )
    assert query_of(SeriesKey("broker", "a", "disk"), (), 60) is None


def test_names_cannot_leave_their_quotation_marks() -> None:
    found = query_of(SeriesKey("topic", 'a"} or \\x\n', "rate"), ["a.b|c"], 15)
    assert found is not None
    assert 'topic="a\\"} or \\\\x\\n"' in found
    assert 'cluster=~"a\\\\.b\\\\|c"' in found


def test_a_chart_has_so_many_points_at_most() -> None:
    for span_s in (600.0, DAY_S, 30 * DAY_S):
        assert span_s / step_of(span_s) <= POINT_COUNT_MAX


@pytest.mark.parametrize("address", ["", "127.0.0.1:9090", "ftp://a", "http://", "http://a:x"])
def test_an_address_that_cannot_be_one_is_refused(address: str) -> None:
    with pytest.raises(BadInput):
        check_url(address)


def reply(*values: list[Any]) -> dict[str, Any]:
    result = [{"metric": {}, "values": list(values)}] if values else []
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def test_points_of_an_answer_without_those_that_are_no_numbers() -> None:
    answer = points_in(json.dumps(reply([1, "2.5"], [2, "NaN"], [3, "+Inf"], [4, "7"])).encode())
    assert answer == Answer((Point(1, 2.5), Point(4, 7.0)))
    assert points_in(json.dumps(reply()).encode()) == Answer()


@pytest.mark.parametrize(
    "body", [b"<html>", b"{}", b'{"status": "error", "error": "no"}', b"\xff", b'{"status": 1}']
)
def test_other_answers_are_problems(body: bytes) -> None:
    answer = points_in(body)
    assert answer.points == ()
    assert answer.problem


class FakePrometheus:
    """Answers with two points of three days ago; and counts."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.is_broken = False
        self.base = ""

    async def answer(self, request: web.Request) -> web.Response:
        fields = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append(fields)
        if self.is_broken:
            return web.Response(status=503, text="overloaded")
        end_s = float(fields["end"]) - 3 * DAY_S
        return web.json_response(reply([end_s, "11"], [end_s + 60, "12"]))


@asynccontextmanager
async def fake_prometheus() -> AsyncIterator[FakePrometheus]:
    fake = FakePrometheus()
    app = web.Application()
    app.router.add_post("/api/v1/query_range", fake.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()


async def test_viewers_share_an_answer_until_it_is_old() -> None:
    async with fake_prometheus() as fake, aiohttp.ClientSession() as session:
        prometheus = Prometheus(fake.base + "/", session)
        for now_s in (1000.0, 1001.0, 1014.0):
            answer = await prometheus.points(GROUP_LAG, {"c"}, 600.0, now_s)
        assert [each.value for each in answer.points] == [11.0, 12.0]
        assert len(fake.asked) == 1
        await prometheus.points(GROUP_LAG, {"c"}, 600.0, 1016.0)
        assert len(fake.asked) == 2
        await prometheus.close()


async def test_a_prometheus_that_does_not_listen_is_a_problem() -> None:
    async with aiohttp.ClientSession() as session:
        prometheus = Prometheus(f"http://127.0.0.1:{free_port()}", session)
        answer = await prometheus.points(GROUP_LAG, (), 600.0, 1000.0)
        assert answer.problem is not None
        assert "cannot be asked" in answer.problem


async def test_a_chart_has_both_parts_and_a_failure_leaves_what_is_in_memory() -> None:
    async with (
        Cluster() as cluster,
        fake_prometheus() as fake,
        dashboard(cluster.name_server, prometheus=fake.base) as visitor,
    ):
        assert 'data-span="30d"' in (await visitor.get("/"))[1]
        _, text = await visitor.get("/charts/cluster?what=put,get&span=7d")
        (times, put, get), problem = json.loads(text)["points"], json.loads(text)["problem"]
        assert problem is None
        assert put[:2] == get[:2] == [11.0, 12.0]
        assert len(times) > 2
        assert times == sorted(times)
        fake.is_broken = True
        _, text = await visitor.get("/charts/cluster?what=put&span=30d")
        found = json.loads(text)
    assert "503" in found["problem"]
    assert len(found["points"][0]) >= 1


async def test_without_prometheus_there_are_no_longer_spans() -> None:
    async with Cluster() as cluster, dashboard(cluster.name_server) as visitor:
        assert 'data-span="7d"' not in (await visitor.get("/"))[1]
        _, text = await visitor.get("/charts/cluster?what=put&span=7d")
    assert json.loads(text)["problem"] is None
