"""The stories that programs of `sdk_programs` run, what has to come out, and the servers for them.

`STORIES` is what docs/compatibility.md is made of, too: the features of every SDK that are tested.
"""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from roquet import Admin, Credentials, TopicSettings
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.groups import CustomizedRetry, GroupConfig, GroupRetryPolicy
from roquet.protocol.codes import RequestCode
from tests.support.accounts import Signer
from tests.support.apache import ApacheBroker
from tests.support.blocking_peer import BlockingPeer
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurBroker, OurNameServer, OurProxy
from tests.support.ports import free_port
from tests.support.sdk_programs import SdkProgram

# Transactions are asked about soon, and the rest is as small as in all tests.
_SETTINGS: Final = {
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "enablePropertyFilter": "true",
}


class Story(NamedTuple):
    """`feature` is its name in the matrix. Groups of an ordered story are ordered."""

    feature: str
    expected: Any
    kind: str = "NORMAL"
    queue_count: int = 4
    is_ordered: bool = False
    retries: int = 16


STORIES: Final[Mapping[str, Story]] = {
    "simple": Story(
        "send, simple consumer, tags",
        [[f"body {index}", "odd", f"key-{index}", "Rome"] for index in (1, 3, 5, 7, 9)],
    ),
    "sql": Story("SQL filters", [["body 0"], ["body 1"], ["body 2"]]),
    "again": Story("change of the invisible time", [1, 2, True]),
    "push": Story(
        "push consumer, retries",
        [["push 0", 1], ["push 1", 1], ["push 2", 1], ["push 3", 1], ["push 3", 2], ["push 4", 1]],
    ),
    "fifo": Story(
        "order by message groups",
        {f"orders-{group}": [str(index) for index in range(10)] for group in (0, 1)},
        kind="FIFO",
        is_ordered=True,
    ),
    "delay": Story("delayed messages", ["later", True], kind="DELAY"),
    "recall": Story("recall of delayed messages", [True, ["second"]], kind="DELAY"),
    "transactions": Story("transactions with check-back", ["commit", "none"], kind="TRANSACTION"),
    "dead": Story("dead letters", [[1, 2], [["bad", "t", "k", "Rome"]]], retries=1),
    "ordered_dead": Story(
        "dead letters of ordered groups",
        [[1, 2], [["bad", "t", "k", "Rome"]]],
        kind="FIFO",
        is_ordered=True,
        retries=1,
    ),
    "share": Story("more consumers than queues", [True, True], queue_count=1),
}

# What each SDK cannot do, or no test has it do. Go knows no recall, Rust nothing but simple
# consumers; Node knows no customized retry policies, and so does not retry in order.
LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    "Java 5.2.0": (),
    "Python 5.1.2": (),
    "Go 5.1.3": ("recall", "share"),
    "Node.js 1.0.8": ("ordered_dead", "share"),
    "Rust 5.0.0": ("again", "push", "recall", "dead", "ordered_dead", "share"),
}


class SdkWorld:
    """A name server and a broker with an endpoint, or a proxy; `settings` are the broker's.

    `operator` makes topics, where accounts are needed. A broker of Apache has no endpoint: it
    needs the proxy.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        operator: Signer | None = None,
        *,
        has_proxy: bool = False,
        apache: ApacheVersion | None = None,
    ) -> None:
        self.names = OurNameServer(directory / "names")
        port = free_port()
        self.endpoint = f"127.0.0.1:{port}"
        configuration = {**_SETTINGS, **(settings or {})}
        place = directory / "broker"
        self.broker: OurBroker | ApacheBroker
        if apache is None:
            configuration["grpcPort"] = str(port)
            self.broker = OurBroker(place, self.names.address, configuration=configuration)
        else:
            self.broker = ApacheBroker(
                apache, place, self.names.address, configuration=configuration
            )
        self._proxy: OurProxy | None = None
        if has_proxy:
            self._proxy = OurProxy(directory / "proxy", self.names.address)
            self.endpoint = self._proxy.endpoint
        self._credentials = Credentials(*operator) if operator else None
        self._count = 0

    def outcome(self, program: SdkProgram, name: str) -> Any:
        """Of a story with a topic and a group of its own."""
        story = STORIES[name]
        self._count += 1
        topic = f"{name}-{self._count}"
        group = f"{'ordered' if story.is_ordered else 'group'}-{topic}"
        self.make_topic(topic, story.kind, story.queue_count)
        self.make_group(group, is_ordered=story.is_ordered, retries=story.retries)
        if "dead" in name:
            self.make_topic(f"%DLQ%{group}", "NORMAL", 1)
        return program.run(name.removeprefix("ordered_"), topic, group)

    def make_topic(self, topic: str, kind: str = "NORMAL", queue_count: int = 4) -> None:
        with Admin(self.names.address, credentials=self._credentials) as admin:
            settings = TopicSettings(
                read_queue_count=queue_count,
                write_queue_count=queue_count,
                attributes={"message.type": kind},
            )
            admin.create_topic(topic, settings)

    def make_group(self, group: str, *, is_ordered: bool = False, retries: int = 16) -> None:
        config = GroupConfig(
            group_name=group,
            consume_message_orderly=is_ordered,
            retry_max_times=retries,
            group_retry_policy=GroupRetryPolicy(
                customized_retry_policy=CustomizedRetry(next=[1_000])
            ),
        )
        with BlockingPeer(self.broker.address) as peer:
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            peer.call(code, body=write_body(config))

    def __enter__(self) -> Self:
        self.names.start()
        self.broker.start()
        if self._proxy is not None:
            self._proxy.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._proxy is not None:
            self._proxy.stop()
        self.broker.stop()
        self.names.stop()
