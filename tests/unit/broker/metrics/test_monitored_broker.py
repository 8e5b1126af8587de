"""Metrics of a broker, and what keeps it from being ready."""

from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from roquet.broker.metrics.monitored_broker import METRICS, MonitoredBroker
from roquet.broker.settings.config import BrokerRole
from roquet.monitoring.exposition import Exposition
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.topics import TopicStatsHeader
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.inner_parts import flusher_of
from tests.support.scraped import Scraped, scraped
from tests.support.transactional import COMMIT, ROLLBACK, begin, end

TOPIC, GROUP = "orders", "billing"
DEAD_LETTERS = "rocketmq_send_to_dlq_messages_total"


def measured(bed: BrokerBed) -> Scraped:
    exposition = Exposition()
    for _ in MonitoredBroker("broker-a", lambda: bed.broker).measure(exposition):
        pass
    return scraped(exposition.text())


def test_no_metric_has_the_name_of_another() -> None:
    assert Counter(metric.name for metric in METRICS).most_common(1)[0][1] == 1


async def test_every_exposed_metric_is_declared(tmp_path: Path) -> None:
    kinds = {metric.name: metric.kind.value for metric in METRICS}
    async with broker_bed(tmp_path) as bed:
        found = measured(bed).kinds
    assert found.items() <= kinds.items()


async def test_messages_are_counted_by_topic_and_group(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        bed.broker.statistics.count_put(TOPIC, 3, 300)
        bed.broker.statistics.count_get(GROUP, TOPIC, 2, 200)
        bed.broker.tables.groups.find_or_create(GROUP, may_create=True)
        assert measured(bed).value(DEAD_LETTERS, consumer_group=GROUP) == 0
        bed.broker.statistics.count_put("%DLQ%billing", 1, 100)
        bed.broker.statistics.count_send_back(GROUP, TOPIC)
        found = measured(bed)
    labels, value = found.values["rocketmq_messages_in_total"][0]
    assert value == 3
    assert labels == {
        "cluster": "DefaultCluster",
        "node_type": "broker",
        "node_id": "broker-a",
        "topic": TOPIC,
        "message_type": "normal",
        "is_system": "false",
    }
    assert found.value("rocketmq_throughput_in_total", topic=TOPIC) == 300
    read = {"consumer_group": GROUP, "topic": TOPIC, "is_retry": "false", "is_system": "false"}
    assert found.value("rocketmq_messages_out_total", **read) == 2
    assert found.value("rocketmq_throughput_out_total", **read) == 200
    assert found.value(DEAD_LETTERS, consumer_group=GROUP) == 1
    assert found.value("roquet_messages_sent_back_total", consumer_group=GROUP, topic=TOPIC) == 1


async def test_a_group_is_as_far_behind_as_it_has_committed(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        broker = bed.broker
        broker.tables.topics.find_or_create(TOPIC, 4)
        broker.tables.groups.find_or_create(GROUP, may_create=True)
        for _ in range(4):
            bed.put(topic=TOPIC)
        bed.clock.advance(40.0)
        bed.put(topic=TOPIC)
        bed.clock.advance(20.0)
        broker.tables.offsets.commit(GROUP, TOPIC, 0, 2)
        broker.tables.offsets.note_pulled(GROUP, TOPIC, 0, 4)
        found = measured(bed)
    assert found.value("rocketmq_consumer_lag_messages", consumer_group=GROUP, topic=TOPIC) == 3
    assert found.value("rocketmq_consumer_ready_messages", consumer_group=GROUP) == 1
    assert found.value("rocketmq_consumer_inflight_messages", consumer_group=GROUP) == 2
    assert found.value("rocketmq_consumer_lag_latency", consumer_group=GROUP) == 60_000
    assert found.value("rocketmq_consumer_queueing_latency", consumer_group=GROUP) == 20_000


async def test_what_was_pulled_waits_no_more(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        bed.broker.tables.groups.find_or_create(GROUP, may_create=True)
        bed.broker.tables.topics.find_or_create(TOPIC, 4)
        bed.put(topic=TOPIC)
        bed.clock.advance(60.0)
        bed.broker.tables.offsets.commit(GROUP, TOPIC, 0, 0)
        bed.broker.tables.offsets.note_pulled(GROUP, TOPIC, 0, 1)
        found = measured(bed)
    assert found.value("rocketmq_consumer_lag_latency", consumer_group=GROUP) == 60_000
    assert found.value("rocketmq_consumer_queueing_latency", consumer_group=GROUP) == 0


async def test_transactions_are_counted_by_their_end(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        client = bed.connect()
        first, second, _ = [await begin(bed, client, name) for name in "abc"]
        assert measured(bed).value("rocketmq_half_messages") == 3
        bed.clock.advance(2.0)
        await end(client, first, COMMIT)
        await end(client, second, ROLLBACK)
        # A second word about the same one is no second end.
        await end(client, first, COMMIT)
        found = measured(bed)
    assert found.value("rocketmq_half_messages") == 1
    assert found.value("rocketmq_commit_messages_total", topic="TopicA") == 1
    assert found.value("rocketmq_rollback_messages_total", topic="TopicA") == 1
    assert found.value("rocketmq_finish_message_latency_count") == 2
    assert found.value("rocketmq_finish_message_latency_sum") >= 4000


async def test_a_client_that_is_connected_is_counted_by_kind(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        for number in range(2):
            client = bed.connect()
            await client.beat(f"client-{number}", reads={GROUP: [TOPIC]}, sends=["shop"])
        found = measured(bed)
    kind = {"language": "java", "version": "407"}
    push = kind | {"consumer_group": GROUP, "consume_mode": "push"}
    assert found.value("rocketmq_consumer_connections", **push) == 2
    assert found.value("rocketmq_producer_connections", **kind) == 2


async def test_refusals_are_counted_by_their_code(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        client = bed.connect()
        header = TopicStatsHeader(topic="nowhere")
        reply = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, header)
        assert reply.code == ResponseCode.TOPIC_NOT_EXIST
        found = measured(bed)
    assert found.value("roquet_requests_refused_total", code="topic_not_exist") == 1


async def test_syncs_are_measured(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        bed.put(topic=TOPIC)
        flusher_of(bed.broker.store).stop()
        before = measured(bed).value("roquet_sync_duration_seconds_count")
        bed.put(topic=TOPIC)
        bed.broker.store.flush()
        assert measured(bed).value("roquet_sync_duration_seconds_count") == before + 1
        bed.broker.store.start()


async def test_a_full_disk_and_no_name_server_are_in_the_way(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        monitored = MonitoredBroker("broker-a", lambda: bed.broker)
        assert monitored.unready_reasons() == [
            "broker-a: no name server knows this broker, so no client finds it"
        ]
        bed.broker.registrar.is_known = True
        assert monitored.unready_reasons() == []
        assert measured(bed).value("roquet_ready") == 1
        bed.broker.store._admission.set_disk_full(95)
        (obstacle,) = monitored.unready_reasons()
        assert obstacle.startswith("broker-a: the disk is full: 95 percent")
        found = measured(bed)
    assert (found.value("roquet_ready"), found.value("roquet_store_writable")) == (0, 0)


def test_a_broker_that_starts_again_says_so_and_measures_nothing() -> None:
    monitored = MonitoredBroker("broker-a", lambda: None)
    exposition = Exposition()
    assert not [*monitored.measure(exposition)]
    assert not exposition.text()
    assert monitored.unready_reasons() == ["broker-a: is restarting in another role"]


async def test_a_slave_is_ready_although_it_takes_no_messages(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        broker = bed.broker
        broker.config = replace(broker.config, role=BrokerRole.SLAVE, broker_id=1)
        broker.store._admission.refuse_as_slave()
        broker.registrar.is_known = True
        found = measured(bed)
    assert found.value("roquet_ready", node_id="broker-a-1") == 1
    assert found.value("roquet_replication_role", role="slave") == 1
