"""Groups that are too far behind."""

from pathlib import Path

import pytest

from roquet.broker.membership import disable_slow_groups, size_behind
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import PullFlag, RequestCode, ResponseCode
from roquet.protocol.headers.messages import PullMessageHeader
from tests.support.broker_bed import BrokerBed, broker_bed

TOPIC = "TopicA"
BODY = bytes(1000)


def pull_header(group: str) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group=group,
        topic=TOPIC,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=1,
        sys_flag=int(PullFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )


async def join(bed: BrokerBed, group: str, offset: int) -> None:
    await bed.connect().beat(f"client-of-{group}", reads={group: [TOPIC]})
    bed.broker.tables.offsets.commit(group, TOPIC, 0, offset)


async def test_how_far_a_group_is_behind_is_measured_in_the_log(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        places = [bed.put(BODY).physical_offset for _ in range(5)]
        await join(bed, "slow", 1)
        await join(bed, "quick", 5)
        assert size_behind(bed.broker, "slow") == bed.broker.store.log_end - places[1]
        assert size_behind(bed.broker, "quick") == 0
        assert size_behind(bed.broker, "unknown") == 0


@pytest.mark.parametrize("is_wanted", [False, True])
async def test_a_slow_group_may_read_no_more_if_the_operator_wants_that(
    tmp_path: Path, is_wanted: bool
) -> None:
    async with broker_bed(
        tmp_path, disable_slow_groups=is_wanted, slow_group_size=2 * len(BODY)
    ) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name=TOPIC))
        for _ in range(5):
            bed.put(BODY)
        await join(bed, "slow", 1)
        await join(bed, "quick", 4)
        disable_slow_groups(bed.broker)
        client = bed.connect()
        slow = await client.ask(RequestCode.PULL_MESSAGE, pull_header("slow"))
        quick = await client.ask(RequestCode.PULL_MESSAGE, pull_header("quick"))
        assert (slow.code == ResponseCode.NO_PERMISSION) is is_wanted
        assert quick.code == ResponseCode.SUCCESS


async def test_a_group_without_members_is_harmless(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, disable_slow_groups=True, slow_group_size=1) as bed:
        bed.put(BODY)
        bed.broker.tables.groups.find_or_create("gone", may_create=True)
        bed.broker.tables.offsets.commit("gone", TOPIC, 0, 0)
        disable_slow_groups(bed.broker)
        found = bed.broker.tables.groups.find("gone")
        assert found is not None
        assert found.consume_enable
