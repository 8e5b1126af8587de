"""Two brokers, their name server, and an operator who has the command `roquet`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Unpack

import pytest

from roquet import Message, Producer, PushConsumer, SendReceipt, StartFrom
from roquet.client.push.config import PushConsumerOptions
from roquet.client.received import ReceivedMessage
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer

TOPIC: Final = "orders"
GROUP: Final = "billing"
# Of one answer: a broker that hangs is waited for so long, and a loaded machine is no hung broker.
ANSWER_S: Final = 3


class OnCall:
    """The servers, and what the operator does and sees."""

    def __init__(self, names: OurNameServer, one: OurBroker, two: OurBroker) -> None:
        self.name_server = names.address
        self.one = one
        self.two = two

    def says(self, *words: str, exit_code: int = 0, answer_s: int = ANSWER_S) -> str:
        """What the command prints, both results and remarks."""
        where = ("-n", self.name_server, "--timeout", str(answer_s))
        finished = roquet(*words, *where)
        printed = finished.stdout + finished.stderr
        assert finished.exit_code == exit_code, f"roquet {' '.join(words)}: {printed}"
        return printed

    def shows(self, *words: str) -> Any:
        """The same as values, whatever the exit code is; empty if it has no result."""
        return json.loads(roquet(*words, "-n", self.name_server, "--json").stdout or "{}")

    def lag(self) -> int | None:
        lag: int | None = self.shows("group", "show", GROUP).get("lag")
        return lag

    def send(self, *keys: str) -> list[SendReceipt]:
        """A message for each key, to the brokers in turn."""
        with Producer(self.name_server, "shop") as producer:
            return [
                producer.send(Message(TOPIC, key.encode(), tags="new", keys=(key,))) for key in keys
            ]

    def consumer(
        self,
        listener: Callable[[ReceivedMessage], None],
        group: str = GROUP,
        *,
        tags: str = "*",
        **options: Unpack[PushConsumerOptions],
    ) -> PushConsumer:
        """A member that reads the topic from its first message, and commits soon."""
        options = {"start_from": StartFrom.FIRST, "commit_interval_s": 0.5, **options}
        consumer = PushConsumer(self.name_server, group, listener, **options)
        consumer.subscribe(TOPIC, tags=tags)
        return consumer

    def is_well(self) -> bool:
        return not self.shows("doctor")["problems"]


@pytest.fixture
def on_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnCall]:
    # A terminal on which no table is folded.
    monkeypatch.setenv("COLUMNS", "400")
    names = OurNameServer(tmp_path / "names")
    with (
        names,
        OurBroker(tmp_path / "a", names.address, broker_name="broker-a") as one,
        OurBroker(tmp_path / "b", names.address, broker_name="broker-b") as two,
    ):
        started = OnCall(names, one, two)
        wait_until(lambda: len(started.shows("cluster")["brokers"]) == 2)
        started.says("topic", "create", TOPIC, "--queues", "1", answer_s=30)
        yield started
