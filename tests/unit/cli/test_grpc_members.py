"""Clients of gRPC in the lists that operators look at: they are members like all others."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roquet import Admin, TopicSettings
from roquet.grpc.schema import pb
from tests.support.command_line import roquet
from tests.support.grpc_client import grpc_client
from tests.support.grpc_requests import GROUP, as_consumer, message, receive_request, received, sent
from tests.support.our_cluster import OurCluster

pytestmark = pytest.mark.slow

CONSUMER, PRODUCER = "vm@1@0@reader", "vm@1@1@shop"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OurCluster]:
    with OurCluster(tmp_path, "--grpc", "127.0.0.1:0") as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.name_server)
        with Admin(cluster.name_server) as admin:
            admin.create_topic("normal", TopicSettings())
        yield cluster


async def answer(*words: str) -> Any:
    finished = await asyncio.to_thread(roquet, *words, "--json")
    assert finished.exit_code == 0, finished.stderr + finished.stdout
    return json.loads(finished.stdout)


async def test_they_are_listed_as_members_and_producers(cluster: OurCluster) -> None:
    port = int(cluster.ready_line.rpartition(":")[2])
    async with grpc_client(port, CONSUMER) as reader, grpc_client(port, PRODUCER) as writer:
        await as_consumer(reader)
        publishing = pb.Publishing(topics=[pb.Resource(name="normal")])
        await writer.settings(publishing=publishing)
        await sent(writer, message())
        assert len(await received(reader, receive_request())) == 1
        (member,) = (await answer("group", "members", GROUP))["connections"]
        assert member["client"] == CONSUMER
        (producer,) = (await answer("producers"))["producers"]
        # Its group is its topic.
        assert (producer["client"], producer["group"]) == (PRODUCER, "normal")
        said = await answer("doctor", "--group", GROUP)
        assert [each for each in said["findings"] if each["severity"] != "fine"] == []
