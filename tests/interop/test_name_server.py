"""Our name server with Apache's brokers, clients and tools: none of them can tell."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.name_server import GetRouteHeader
from tests.support.apache import CLUSTER_NAME, HOST, ApacheBroker
from tests.support.blocking_peer import BlockingPeer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import JavaProducer, JavaPullConsumer, Outgoing
from tests.support.java_driver import JavaDriver
from tests.support.ports import free_port

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

PROGRAM = "from roquet.cli.main import main; main()"
STOP_TIMEOUT_S = 20.0


@contextmanager
def our_name_server(home: Path) -> Iterator[str]:
    """The process `roquet namesrv`; its address."""
    port = free_port()
    log_path = home / "namesrv.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "namesrv", "--port", str(port)],
            stderr=log,
            env={**os.environ, "HOME": str(home)},
        )
    try:
        wait_until(lambda: b"listens on" in log_path.read_bytes())
        yield f"{HOST}:{port}"
    finally:
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0
        assert b"ERROR" not in log_path.read_bytes()


def has_route(names: str, topic: str) -> bool:
    with BlockingPeer(names) as peer:
        reply = peer.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic))
    return reply.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("version", list(ApacheVersion))
def test_apache_brokers_clients_and_tools_work_with_our_name_server(
    version: ApacheVersion,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    tmp_path: Path,
) -> None:
    java = java_drivers(version)
    with (
        our_name_server(tmp_path) as names,
        ApacheBroker(version, tmp_path / "broker", names) as broker,
    ):

        def tool(*words: str) -> str:
            return java.mqadmin(words[0], "-n", names, *words[1:]).output

        with (
            JavaProducer(java, names, "producers") as producer,
            JavaPullConsumer(java, names, "pullers") as puller,
        ):
            sent = producer.send(Outgoing("created-by-sending", b"hello"))
            assert sent.status == "SEND_OK"
            (message,) = puller.pull(sent.queue, 0).messages
            assert message.body == b"hello"

        assert broker.address in tool("clusterList")
        tool("updateTopic", "-c", CLUSTER_NAME, "-t", "made", "-r", "2", "-w", "2")
        assert {"made", "created-by-sending"} <= set(tool("topicList").split())
        assert '"writeQueueNums":2' in tool("topicRoute", "-t", "made")
        assert "OK" in tool("wipeWritePerm", "-b", broker.broker_name)
        assert '"perm":4' in tool("topicRoute", "-t", "made")
        assert "OK" in tool("addWritePerm", "-b", broker.broker_name)
        tool("updateKvConfig", "-s", "space", "-k", "key", "-v", "value")
        stored = json.loads((tmp_path / "namesrv" / "kvConfig.json").read_bytes())
        assert stored["configTable"] == {"space": {"key": "value"}}
        assert "orderMessageEnable" in tool("getNamesrvConfig")
        assert "success" in tool("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
        tool("updateOrderConf", "-t", "made", "-m", "put", "-v", f"{broker.broker_name}:2")
        assert f'"orderTopicConf":"{broker.broker_name}:2"' in tool("topicRoute", "-t", "made")

        assert has_route(names, "made")
        broker.kill()
        wait_until(lambda: not has_route(names, "made"))
