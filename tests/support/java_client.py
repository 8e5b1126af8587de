"""Real Java clients, each a context manager: started at the top of its block, shut down below.

`options` are the setters of the Java client by name, such as `{"sendMsgTimeout": 5000}` or
`{"messageModel": "BROADCASTING"}`; `credentials` are an access key and its secret. The clients
live in the JVM of `java_driver.py`; where Java throws, `JavaFailure` is raised.
"""

import time
from collections.abc import Iterable, Mapping
from types import NoneType, TracebackType
from typing import Any, ClassVar, NamedTuple, Self, TypedDict, TypeVar, Unpack

import msgspec

from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.signing import client

# How long the Java side waits for messages that do not come, and how much later we give up.
_WAIT_S = 20.0
_GRACE_S = 30.0
_POLL_S = 0.05

# Java's own code, which never travels.
_NO_MESSAGE = 208

T = TypeVar("T")


class _Value(msgspec.Struct, rename="camel"):
    """Something that travels between Python and the JVM; bodies travel as base64."""


class Queue(_Value):
    topic: str
    broker_name: str
    queue_id: int


class Outgoing(_Value):
    """A message to send. Tags, keys and delay levels are properties, as they are on the wire."""

    topic: str
    body: bytes
    flag: int = 0
    properties: dict[str, str] = {}


class Received(_Value):
    """A message as the Java client shows it, with the body decompressed."""

    topic: str
    body: bytes
    flag: int
    properties: dict[str, str]
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    body_crc: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    message_id: str
    # Not every way to a message tells the client these two.
    offset_id: str | None = None
    broker_name: str | None = None


class Replied(_Value):
    """The answer to a request. It was never stored, so it has no place."""

    topic: str
    body: bytes
    properties: dict[str, str]


class Sent(_Value):
    status: str
    message_id: str
    queue: Queue
    queue_offset: int
    offset_id: str | None = None
    transaction_id: str | None = None
    region_id: str | None = None
    recall_handle: str | None = None


class Pulled(_Value):
    status: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[Received]


class Subscription(_Value):
    """By tags, unless there is an SQL92 expression."""

    topic: str
    tags: str = "*"
    sql: str | None = None


class Credentials(NamedTuple):
    access_key: str
    secret_key: str


class ClientSettings(TypedDict, total=False):
    """What every client takes besides its name server and group."""

    options: Mapping[str, object]
    credentials: Credentials


class _Client:
    """One client of the JVM, from start to shutdown."""

    role: ClassVar[str]

    def __init__(
        self, driver: JavaDriver, name_server: str, group: str, **settings: Unpack[ClientSettings]
    ) -> None:
        self.group = group
        self.handle = driver.new_handle(self.role)
        self._driver = driver
        access_key, secret_key = settings.get("credentials") or client() or (None, None)
        self._start_arguments: dict[str, Any] = {
            "nameServer": name_server,
            "group": group,
            "options": settings.get("options", {}),
            "accessKey": access_key,
            "secretKey": secret_key,
        }

    def __enter__(self) -> Self:
        self._tell("start", **self._start_arguments)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tell("shutdown")

    def _tell(self, command: str, **arguments: object) -> None:
        self._ask(command, NoneType, **arguments)

    def _ask(self, command: str, answer_type: type[T], **arguments: object) -> T:
        named = {"handle": self.handle, **arguments}
        return self._driver.call(f"{self.role}.{command}", named, answer_type)

    def _await(self, command: str, answer_type: type[T], wait_s: float, **arguments: object) -> T:
        """Like `_ask`, for a command that takes up to `wait_s` when all is well."""
        named = {"handle": self.handle, "timeoutMs": round(wait_s * 1000), **arguments}
        return self._driver.call(f"{self.role}.{command}", named, answer_type, wait_s + _GRACE_S)


class JavaProducer(_Client):
    """DefaultMQProducer. `queue` sends to that queue, `sharding_key` lets a hash choose one."""

    role = "producer"

    def send(
        self, message: Outgoing, queue: Queue | None = None, sharding_key: str | None = None
    ) -> Sent:
        return self._ask("send", Sent, message=message, queue=queue, shardingKey=sharding_key)

    def send_async(
        self, message: Outgoing, queue: Queue | None = None, sharding_key: str | None = None
    ) -> Sent:
        """The result that the callback was called with."""
        return self._ask("sendAsync", Sent, message=message, queue=queue, shardingKey=sharding_key)

    def send_oneway(
        self, message: Outgoing, queue: Queue | None = None, sharding_key: str | None = None
    ) -> None:
        self._tell("sendOneway", message=message, queue=queue, shardingKey=sharding_key)

    def send_batch(self, *messages: Outgoing, queue: Queue | None = None) -> Sent:
        return self._ask("sendBatch", Sent, messages=messages, queue=queue)

    def request(self, message: Outgoing, wait_s: float = _WAIT_S) -> Replied:
        return self._await("request", Replied, wait_s, message=message)

    def recall(self, topic: str, handle: str) -> str:
        """Only 5.x."""
        return self._ask("recall", str, topic=topic, recallHandle=handle)

    def queues(self, topic: str) -> list[Queue]:
        return self._ask("queues", list[Queue], topic=topic)

    def query_by_key(
        self, topic: str, key: str, count_max: int = 32, wait_s: float = _WAIT_S
    ) -> list[Received]:
        """Asks until something is found or the time is up: brokers index behind the queues."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                return self._ask(
                    "queryByKey", list[Received], topic=topic, key=key, countMax=count_max
                )
            except JavaFailure as failure:
                if failure.code != _NO_MESSAGE:
                    raise
                if time.monotonic() > deadline:
                    return []
                time.sleep(_POLL_S)

    def view(self, topic: str, message_id: str) -> Received:
        """By offset id or by unique key; the Java client finds out which one it is."""
        return self._ask("view", Received, topic=topic, id=message_id)


class JavaTransactionProducer(_Client):
    """TransactionMQProducer, with the outcome of each transaction given in advance."""

    role = "transaction"

    def send(self, message: Outgoing, *states: str) -> Sent:
        """`states` are COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW: first what the local transaction
        returns, then the answers when the broker asks. The last one is for all further questions.
        """
        return self._ask("send", Sent, message=message, states=states)

    def checks(self, count: int, wait_s: float = _WAIT_S) -> list[Received]:
        """The half messages that the broker asked about."""
        return self._await("checks", list[Received], wait_s, count=count)


class JavaPushConsumer(_Client):
    """DefaultMQPushConsumer that starts at the first message there is.

    Each message fails until it was consumed `failures` times, and comes again by `retry_level`;
    0 leaves it to the broker, which starts with ten seconds. With a `replier` it answers requests:
    the reply is the body, reversed.
    """

    role = "push"

    def __init__(
        self,
        driver: JavaDriver,
        name_server: str,
        group: str,
        *subscriptions: Subscription,
        orderly: bool = False,
        failures: int = 0,
        retry_level: int = 1,
        replier: JavaProducer | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        super().__init__(driver, name_server, group, **settings)
        self._start_arguments |= {
            "subscriptions": subscriptions,
            "orderly": orderly,
            "failures": failures,
            "retryLevel": retry_level,
            "replier": replier.handle if replier else None,
        }

    def received(self, count: int, wait_s: float = _WAIT_S) -> list[Received]:
        """The next `count` deliveries, or fewer when they do not come in time."""
        return self._await("received", list[Received], wait_s, count=count)

    def assignment(self, topic: str) -> list[Queue]:
        """The queues that this consumer has now."""
        return self._ask("assignment", list[Queue], topic=topic)


class JavaPullConsumer(_Client):
    """DefaultMQPullConsumer: the test chooses queue and offset."""

    role = "pull"

    def queues(self, topic: str) -> list[Queue]:
        return self._ask("queues", list[Queue], topic=topic)

    def pull(
        self,
        queue: Queue,
        offset: int,
        *,
        tags: str = "*",
        sql: str | None = None,
        count_max: int = 32,
    ) -> Pulled:
        return self._ask(
            "pull", Pulled, queue=queue, offset=offset, tags=tags, sql=sql, countMax=count_max
        )

    def pull_or_wait(
        self, queue: Queue, offset: int, *, tags: str = "*", count_max: int = 32
    ) -> Pulled:
        """A long poll: the broker answers when there is a message, or after its time."""
        return self._await(
            "pullOrWait", Pulled, _WAIT_S, queue=queue, offset=offset, tags=tags, countMax=count_max
        )

    def min_offset(self, queue: Queue) -> int:
        return self._ask("minOffset", int, queue=queue)

    def max_offset(self, queue: Queue) -> int:
        return self._ask("maxOffset", int, queue=queue)

    def search_offset(self, queue: Queue, timestamp: int) -> int:
        return self._ask("searchOffset", int, queue=queue, timestamp=timestamp)

    def earliest_store_time(self, queue: Queue) -> int:
        return self._ask("earliestStoreTime", int, queue=queue)

    def consumer_offset(self, queue: Queue) -> int:
        """What the broker has for the group; -1 for nothing."""
        return self._ask("consumerOffset", int, queue=queue)

    def update_consumer_offset(self, queue: Queue, offset: int) -> None:
        """Returns when the broker has it."""
        self._tell("updateConsumerOffset", queue=queue, offset=offset)


class JavaLitePullConsumer(_Client):
    """DefaultLitePullConsumer: shares queues by subscription, or takes them with `assign`."""

    role = "lite"

    def __init__(
        self,
        driver: JavaDriver,
        name_server: str,
        group: str,
        *subscriptions: Subscription,
        **settings: Unpack[ClientSettings],
    ) -> None:
        super().__init__(driver, name_server, group, **settings)
        self._start_arguments["subscriptions"] = subscriptions

    def queues(self, topic: str) -> list[Queue]:
        return self._ask("queues", list[Queue], topic=topic)

    def assign(self, *queues: Queue) -> None:
        self._tell("assign", queues=queues)

    def assignment(self) -> list[Queue]:
        return self._ask("assignment", list[Queue])

    def poll(self, wait_s: float = _WAIT_S) -> list[Received]:
        return self._await("poll", list[Received], wait_s)

    def seek(self, queue: Queue, offset: int) -> None:
        self._tell("seek", queue=queue, offset=offset)

    def commit(self) -> None:
        """Everything that was polled; the broker has it when this returns."""
        self._tell("commit")

    def committed(self, queue: Queue) -> int:
        return self._ask("committed", int, queue=queue)


class JavaScheduledPullConsumer(_Client):
    """MQPullConsumerScheduleService: shares the queues of a topic, and pulls each in turn."""

    role = "scheduled"

    def __init__(
        self,
        driver: JavaDriver,
        name_server: str,
        group: str,
        topic: str,
        **settings: Unpack[ClientSettings],
    ) -> None:
        super().__init__(driver, name_server, group, **settings)
        self._start_arguments["topic"] = topic

    def received(self, count: int, wait_s: float = _WAIT_S) -> list[Received]:
        """The next `count` messages, or fewer when they do not come in time."""
        return self._await("received", list[Received], wait_s, count=count)


def bodies(messages: Iterable[Received]) -> list[bytes]:
    return [message.body for message in messages]


def decode_records(driver: JavaDriver, records: bytes) -> list[Received]:
    """The body of a pull reply as Java's own decoder reads it."""
    return driver.call("records.decode", {"records": records}, list[Received])
