"""Clients belong to the event loop that opened them."""

import asyncio
from typing import Any

import pytest

from roquet import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    AsyncTopicReader,
    Message,
)
from roquet.client.errors import WrongLoop
from roquet.testing import BlockingCluster
from tests.support.raising import raises

CLIENTS: list[Any] = [
    lambda names: AsyncProducer(names, "g"),
    lambda names: AsyncPushConsumer(names, "g", print),
    lambda names: AsyncPullConsumer(names, "g"),
    AsyncAdmin,
    AsyncTopicReader,
]


@pytest.mark.parametrize("new_client", CLIENTS)
def test_a_client_is_not_closed_in_another_loop(new_client: Any) -> None:
    with BlockingCluster() as cluster, asyncio.Runner() as first, asyncio.Runner() as second:
        client = new_client(cluster.name_server)
        first.run(client.open())
        with pytest.raises(WrongLoop):
            second.run(client.close())
        first.run(client.close())


def test_a_client_is_not_used_in_another_loop() -> None:
    with BlockingCluster() as cluster, asyncio.Runner() as first, asyncio.Runner() as second:
        producer = AsyncProducer(cluster.name_server, "g")
        first.run(producer.open())
        with raises(WrongLoop, what="producer"):
            second.run(producer.send(Message("t", b"x")))
        first.run(producer.close())
