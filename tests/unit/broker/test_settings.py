"""Every setting that may be changed while a broker runs changes something while it runs.

For each key there is a check: it sees what the broker does, changes the setting by a request, and
sees the broker do something else. A key without a check fails.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from roquet.broker.maintenance import start_upkeep
from roquet.broker.membership import disable_slow_groups
from roquet.broker.settings.apache_keys import CHANGEABLE
from roquet.broker.transactions.check_back import check_transactions
from roquet.disk import Space
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.clients import SubscriptionCheck, SubscriptionData
from roquet.protocol.bodies.offsets import DelayOffsetTable
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import PullFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    RecallMessageHeader,
    SendMessageHeaderV2,
)
from roquet.protocol.messages.record import split_records
from roquet.protocol.names import RETRY_PREFIX
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.faulty_disk import FaultyDisk
from tests.support.inner_parts import log_of
from tests.support.stores import messages, small_config
from tests.support.transactional import GIVEN_UP_TOPIC, GROUP, begin, half_header

DAY_MS = 86_400_000


@dataclass
class Trial:
    key: str
    bed: BrokerBed
    client: BedClient
    disk: FaultyDisk
    name_server: socket.socket

    async def change(self, value: object) -> None:
        body = f"{self.key}={value}\n".encode()
        reply = await self.client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, body)
        assert reply.code == ResponseCode.SUCCESS, reply.remark

    async def send(self, topic: str = "TopicA", code: int = 0, **members: Any) -> ResponseCode:
        values: dict[str, Any] = {
            "producer_group": "senders",
            "topic": topic,
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 0,
            "sys_flag": 0,
            "born_timestamp": self.bed.clock.now_ms(),
            "flag": 0,
            "properties": "",
        }
        header = SendMessageHeaderV2(**(values | members))
        request = RequestCode(code or RequestCode.SEND_MESSAGE_V2)
        return ResponseCode((await self.client.ask(request, header, b"body")).code)

    async def pull(self, **members: Any) -> Command:
        return await self.client.ask(RequestCode.PULL_MESSAGE, pull_header(**members))

    async def pulled_count(self, **members: Any) -> int:
        return len(list(split_records((await self.pull(**members)).body)))

    def wait_for_messages(self) -> "asyncio.Future[Command]":
        suspended = int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)
        return asyncio.ensure_future(self.pull(sys_flag=suspended))

    def fill_files(self, count: int = 4) -> None:
        """Small stores have files of 4 KiB."""
        while self.bed.broker.store.log_end < count * 4096:
            self.bed.put(bytes(500))

    def cleaned_count(self) -> int:
        return self.bed.broker.store.clean().file_count


def pull_header(**members: Any) -> PullMessageHeader:
    values: dict[str, Any] = {
        "consumer_group": "readers",
        "topic": "TopicA",
        "queue_id": 0,
        "queue_offset": 0,
        "max_msg_nums": 32,
        "sys_flag": int(PullFlag.SUBSCRIPTION),
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 0,
        "subscription": "*",
    }
    return PullMessageHeader(**(values | members))


Check = Callable[[Trial], Awaitable[None]]
# By key, the check and what the broker is started with: members of its config and its store's.
EFFECTS: dict[str, tuple[Check, dict[str, Any], dict[str, Any]]] = {}


def effect(
    key: str, store: dict[str, Any] | None = None, **config: Any
) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        EFFECTS[key] = (check, config, store or {})
        return check

    return register


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Where a name server should be: it takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def silent_address(silent: socket.socket) -> str:
    return f"127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize("key", sorted(CHANGEABLE))
@pytest.mark.slow
async def test_a_changed_setting_has_an_effect(
    tmp_path: Path, silent: socket.socket, key: str
) -> None:
    check, config, store = EFFECTS[key]
    disk = FaultyDisk(tmp_path)
    store_config = small_config(tmp_path, **store)
    settings = {"store": store_config, "name_servers": (silent_address(silent),)} | config
    async with broker_bed(tmp_path, disk=disk, **settings) as bed:  # type: ignore[arg-type]
        topic = TopicConfig(topic_name="TopicA", read_queue_nums=2, write_queue_nums=2)
        bed.broker.tables.topics.update(topic)
        await check(Trial(key, bed, bed.connect(), disk, silent))


def test_nothing_is_checked_that_cannot_be_changed() -> None:
    assert EFFECTS.keys() == CHANGEABLE


@effect("logLevel")
async def _(trial: Trial) -> None:
    logger = logging.getLogger("roquet.broker")
    try:
        await trial.change("ERROR")
        assert not logger.isEnabledFor(logging.WARNING)
        await trial.change("DEBUG")
        assert logger.isEnabledFor(logging.DEBUG)
    finally:
        logging.getLogger("roquet").setLevel(logging.NOTSET)


# --- who may do what ---


@effect("autoCreateTopicEnable")
async def _(trial: Trial) -> None:
    assert await trial.send("Fresh") == ResponseCode.SUCCESS
    await trial.change("false")
    assert await trial.send("Fresher") == ResponseCode.TOPIC_NOT_EXIST


@effect("autoCreateSubscriptionGroup")
async def _(trial: Trial) -> None:
    await trial.change("false")
    reply = await trial.pull(consumer_group="strangers")
    assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    await trial.change("true")
    assert (await trial.pull(consumer_group="strangers")).code == ResponseCode.PULL_NOT_FOUND


@effect("autoCreateTopicMax")
async def _(trial: Trial) -> None:
    await trial.change(1)
    assert await trial.send("Fresh") == ResponseCode.SYSTEM_ERROR
    await trial.change(10_000)
    assert await trial.send("Fresh") == ResponseCode.SUCCESS


@effect("autoCreateGroupMax")
async def _(trial: Trial) -> None:
    await trial.change(1)
    reply = await trial.pull(consumer_group="strangers")
    assert reply.code == ResponseCode.SYSTEM_ERROR
    await trial.change(10_000)
    assert (await trial.pull(consumer_group="strangers")).code == ResponseCode.PULL_NOT_FOUND


@effect("brokerPermission")
async def _(trial: Trial) -> None:
    assert (await trial.pull()).code == ResponseCode.PULL_NOT_FOUND
    await trial.change(2)
    assert (await trial.pull()).code == ResponseCode.NO_PERMISSION


@effect("rejectTransactionMessage")
async def _(trial: Trial) -> None:
    await begin(trial.bed, trial.client, "a")
    await trial.change("true")
    header = half_header(trial.bed, "b")
    reply = await trial.client.ask(RequestCode.SEND_MESSAGE_V2, header, b"b")
    assert reply.code == ResponseCode.NO_PERMISSION


@effect("startAcceptSendRequestTimeStamp")
async def _(trial: Trial) -> None:
    assert await trial.send() == ResponseCode.SUCCESS
    await trial.change(trial.bed.clock.now_ms() + 1_000)
    assert await trial.send() != ResponseCode.SUCCESS
    trial.bed.clock.advance(1)
    assert await trial.send() == ResponseCode.SUCCESS


@effect("storeReplyMessageEnable")
async def _(trial: Trial) -> None:
    topic = "DefaultCluster_REPLY_TOPIC"
    properties = "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01nobody\x02CORRELATION_ID\x01c"
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    for is_stored, count in (("true", 1), ("false", 1), ("true", 2)):
        await trial.change(is_stored)
        await trial.send(topic, code, properties=properties)
        assert len(messages(trial.bed.broker.store, topic)) == count


# --- filters and notices ---


def sql(topic: str = "TopicA") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string="a > 1", expression_type="SQL92")


@effect("enablePropertyFilter")
async def _(trial: Trial) -> None:
    check = SubscriptionCheck(client_id="c", group="readers", subscription_data=sql())

    async def may_filter() -> bool:
        reply = await trial.client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, check)
        return reply.code == ResponseCode.SUCCESS

    assert not await may_filter()
    await trial.change("true")
    assert await may_filter()


@effect("filterSupportRetry", sql_filters=True)
async def _(trial: Trial) -> None:
    retry = RETRY_PREFIX + "readers"
    trial.bed.broker.tables.topics.update(TopicConfig(topic_name=retry))
    await trial.client.beat("one", reads={"readers": ["TopicA", retry]})
    group = trial.bed.broker.clients.consumers.find("readers")
    assert group is not None
    group.subscriptions["TopicA"] = sql()
    trial.bed.put(topic=retry, properties={"RETRY_TOPIC": "TopicA", "a": "1"})
    assert await trial.pulled_count(topic=retry, sys_flag=0) == 1
    await trial.change("true")
    assert await trial.pulled_count(topic=retry, sys_flag=0) == 0


@effect("recallMessageEnable")
async def _(trial: Trial) -> None:
    # A handle that is none is looked at only if recalls are allowed.
    header = RecallMessageHeader(topic="TopicA", recall_handle="none")

    async def recalled() -> int:
        return (await trial.client.ask(RequestCode.RECALL_MESSAGE, header)).code

    assert await recalled() == ResponseCode.ILLEGAL_OPERATION
    await trial.change("false")
    assert await recalled() == ResponseCode.NO_PERMISSION


@effect("notifyConsumerIdsChangedEnable")
async def _(trial: Trial) -> None:
    await trial.client.beat("one", reads={"readers": ["TopicA"]})
    await trial.client.all_asked()
    await trial.change("false")
    await trial.bed.connect().beat("two", reads={"readers": ["TopicA"]})
    assert await trial.client.all_asked() == []
    await trial.change("true")
    await trial.bed.connect().beat("three", reads={"readers": ["TopicA"]})
    (notice,) = await trial.client.all_asked()
    assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


# --- reading ---


async def is_slow_group_stopped(trial: Trial) -> bool:
    await trial.client.beat("one", reads={"readers": ["TopicA"]})
    for _ in range(2):
        trial.bed.put(bytes(100))
    trial.bed.broker.tables.offsets.commit("readers", "TopicA", 0, 0)
    disable_slow_groups(trial.bed.broker)
    return (await trial.pull()).code == ResponseCode.NO_PERMISSION


@effect("disableConsumeIfConsumerReadSlowly", slow_group_size=1)
async def _(trial: Trial) -> None:
    assert not await is_slow_group_stopped(trial)
    await trial.change("true")
    assert await is_slow_group_stopped(trial)


@effect("consumerFallbehindThreshold", disable_slow_groups=True)
async def _(trial: Trial) -> None:
    assert not await is_slow_group_stopped(trial)
    await trial.change(1)
    assert await is_slow_group_stopped(trial)


@effect("longPollingEnable")
async def _(trial: Trial) -> None:
    await trial.change("false")
    waiting = trial.wait_for_messages()
    await asyncio.sleep(0)
    trial.bed.clock.advance(3)  # A long poll would take fifteen.
    assert (await waiting).code == ResponseCode.PULL_NOT_FOUND


@effect("shortPollingTimeMills", long_polling=False)
async def _(trial: Trial) -> None:
    await trial.change(5)
    waiting = trial.wait_for_messages()
    await asyncio.sleep(0)
    trial.bed.clock.advance(0.5)  # Usually it is one second.
    assert (await waiting).code == ResponseCode.PULL_NOT_FOUND


@effect("maxTransferCountOnMessageInMemory")
async def _(trial: Trial) -> None:
    for _ in range(9):
        trial.bed.put()
    assert await trial.pulled_count() == 9
    await trial.change(5)
    assert await trial.pulled_count() == 5


@effect("maxTransferBytesOnMessageInMemory")
async def _(trial: Trial) -> None:
    for _ in range(9):
        trial.bed.put(bytes(100))
    assert await trial.pulled_count() == 9
    await trial.change(1_000)
    assert await trial.pulled_count() in range(1, 9)


@effect("maxTransferBytesOnBulkPull")
async def _(trial: Trial) -> None:
    for _ in range(9):
        trial.bed.put(bytes(100))
    assert await trial.pulled_count(max_msg_bytes=500_000) == 9
    await trial.change(1_000)
    assert await trial.pulled_count(max_msg_bytes=500_000) in range(1, 9)


@effect("checkCRCOnRead")
async def _(trial: Trial) -> None:
    trial.bed.put(b"rotten")
    log = log_of(trial.bed.broker.store)
    # As if it had not been written by this process.
    log.written_from = log.end
    log.files[0].mapping[88] ^= 1
    assert await trial.pulled_count() == 0
    await trial.change("false")
    assert (await trial.pull()).body
    await trial.change("true")
    assert await trial.pulled_count() == 0


@effect("accessMessageInMemoryMaxRatio", {"memory_size": 100_000})
async def _(trial: Trial) -> None:
    for _ in range(10):
        trial.bed.put(bytes(100))
    assert await trial.pulled_count() == 10
    await trial.change(1)  # A thousand bytes: the first ones have to come from disk.
    assert await trial.pulled_count() == 8


@effect("slaveReadEnable", {"memory_size": 0})
async def _(trial: Trial) -> None:
    trial.bed.put()
    assert field_texts((await trial.pull()).fields)["suggestWhichBrokerId"] == "0"
    await trial.change("true")
    assert field_texts((await trial.pull()).fields)["suggestWhichBrokerId"] == "1"


@effect("maxTransferCountOnMessageInDisk", {"memory_size": 0})
async def _(trial: Trial) -> None:
    for _ in range(9):
        trial.bed.put()
    assert await trial.pulled_count() == 8
    await trial.change(5)
    assert await trial.pulled_count() == 5


@effect("maxTransferBytesOnMessageInDisk", {"memory_size": 0})
async def _(trial: Trial) -> None:
    for _ in range(8):
        trial.bed.put(bytes(100))
    assert await trial.pulled_count() == 8
    await trial.change(1_000)
    assert await trial.pulled_count() in range(1, 8)


# --- removing old files ---


@effect("fileReservedTime", {"delete_hours": tuple(range(24))})
async def _(trial: Trial) -> None:
    trial.fill_files()
    trial.bed.clock.advance(25 * 3600)
    assert trial.cleaned_count() == 0
    await trial.change(24)
    assert trial.cleaned_count() > 0


@effect("deleteWhen", {"delete_hours": ()})
async def _(trial: Trial) -> None:
    trial.fill_files()
    trial.bed.clock.advance(73 * 3600)
    assert trial.cleaned_count() == 0
    now = datetime.fromtimestamp(trial.bed.clock.now_ms() / 1000, UTC).astimezone()
    await trial.change(f"{now.hour:02}")
    assert trial.cleaned_count() > 0


@effect("diskMaxUsedSpaceRatio", {"delete_hours": ()})
async def _(trial: Trial) -> None:
    trial.fill_files()
    trial.bed.clock.advance(73 * 3600)
    assert trial.cleaned_count() == 0
    await trial.change(40)  # Half of it is used.
    assert trial.cleaned_count() > 0


@effect("cleanFileForciblyEnable", {"delete_hours": ()})
async def _(trial: Trial) -> None:
    trial.fill_files()
    trial.disk.free_space = Space(used=88, usable=12)
    await trial.change("false")
    assert trial.cleaned_count() == 0
    await trial.change("true")
    assert trial.cleaned_count() > 0


# --- what is done again and again; all of it would come in a day otherwise ---


@effect("flushConsumerOffsetInterval", save_offsets_interval_ms=DAY_MS)
async def _(trial: Trial) -> None:
    broker = trial.bed.broker
    with pytest.MonkeyPatch.context() as patch:
        # Just started, it would save them anyway.
        patch.setattr("roquet.broker.maintenance._FIRST_SAVE_MS", DAY_MS)
        start_upkeep(broker)
        await asyncio.sleep(0)
    broker.tables.offsets.commit("readers", "TopicA", 0, 7)
    await trial.change(1)
    file = broker.config.store.layout.config / "consumerOffset.json"
    await eventually(lambda: file.exists() and b"readers" in file.read_bytes())


@effect(
    "flushDelayOffsetInterval",
    {"flush_pages_min": 0, "flush_interval_ms": 10},
    save_delays_interval_ms=DAY_MS,
)
async def _(trial: Trial) -> None:
    broker = trial.bed.broker
    start_upkeep(broker)
    await trial.send(properties="DELAY\x011")
    trial.bed.clock.advance(2)
    broker.waiting.delays.wake_at(0)
    await eventually(lambda: broker.store.max_offset("TopicA", 0) == 1)
    await trial.change(1)
    file = broker.config.store.layout.config / "delayOffset.json"
    await eventually(
        lambda: (
            file.exists()
            and read_body(DelayOffsetTable, file.read_bytes()).offset_table.get(1) == 1
        )
    )


@effect("transactionCheckInterval", transaction_check_interval_ms=DAY_MS)
async def _(trial: Trial) -> None:
    start_upkeep(trial.bed.broker)
    await trial.client.beat("one", sends=[GROUP])
    await begin(trial.bed, trial.client, "a")
    trial.bed.clock.advance(60)
    await trial.change(1)
    assert (await trial.client.asked()).code == RequestCode.CHECK_TRANSACTION_STATE


@effect("transactionTimeOut")
async def _(trial: Trial) -> None:
    await trial.client.beat("one", sends=[GROUP])
    await begin(trial.bed, trial.client, "a")
    trial.bed.clock.advance(1)
    await check_transactions(trial.bed.broker)
    assert await trial.client.all_asked() == []
    await trial.change(1_000)
    await check_transactions(trial.bed.broker)
    assert len(await trial.client.all_asked()) == 1


@effect("transactionCheckMax")
async def _(trial: Trial) -> None:
    await trial.client.beat("one", sends=[GROUP])
    await begin(trial.bed, trial.client, "a")
    await trial.change(1)
    for _ in range(2):
        trial.bed.clock.advance(60)
        await check_transactions(trial.bed.broker)
    assert len(messages(trial.bed.broker.store, GIVEN_UP_TOPIC)) == 1


# --- name servers ---


@effect("registerNameServerPeriod", register_interval_ms=DAY_MS)
async def _(trial: Trial) -> None:
    start_upkeep(trial.bed.broker)
    await asyncio.sleep(0)
    await trial.change(10_000)
    async with asyncio.timeout(30):
        connection, _ = await asyncio.get_running_loop().sock_accept(trial.name_server)
    connection.close()


@effect("registerBrokerTimeoutMills", register_timeout_ms=DAY_MS)
async def _(trial: Trial) -> None:
    await trial.change(1)
    async with asyncio.timeout(30):
        assert await trial.bed.broker.registrar.register() == []
