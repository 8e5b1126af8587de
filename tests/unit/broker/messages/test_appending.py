"""Sends that may have waited too long for the loop."""

import asyncio
from pathlib import Path

import pytest

from roquet.broker.messages.appending import LateSends
from roquet.broker.settings.apache_keys import read_config
from roquet.net.errors import Refused
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.messages import SendBackHeader
from tests.support.broker_bed import broker_bed
from tests.support.common_requests import common_send_header
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock

WAIT_MS = 200


def test_after_a_silence_that_was_too_long_sends_are_late() -> None:
    clock = FakeClock()
    late_sends = LateSends(clock, 0.2)
    clock.advance(0.1)
    assert not late_sends.is_late()
    clock.advance(0.2)
    assert late_sends.is_late()
    with pytest.raises(Refused, match="period in queue: 300ms") as refused:
        late_sends.check()
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    late_sends.note_alive()
    late_sends.check()
    assert late_sends.refused_count == 1


def test_without_a_bound_nothing_is_late() -> None:
    clock = FakeClock()
    late_sends = LateSends(clock, 0.0)
    clock.advance(3600)
    late_sends.check()


async def test_a_loop_that_runs_is_alive() -> None:
    clock = FakeClock()
    late_sends = LateSends(clock, 0.01)
    noting = asyncio.create_task(late_sends.keep_noting())
    clock.advance(1)
    await eventually(lambda: not late_sends.is_late())
    noting.cancel()


@pytest.mark.parametrize("queue_count", [0, 1])
async def test_late_sends_are_refused_as_apache_does(tmp_path: Path, queue_count: int) -> None:
    async with broker_bed(tmp_path, send_wait_ms_max=WAIT_MS) as bed:
        client = bed.connect()
        # The first one makes the topic, and the others are plain.
        for _ in range(queue_count + 1):
            sent = await client.ask(RequestCode.SEND_MESSAGE_V2, common_send_header("t"), b"x")
            assert sent.code == ResponseCode.SUCCESS
        bed.clock.advance(1)
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            reply = await client.ask(code, common_send_header("t"), b"x")
            assert reply.code == ResponseCode.SYSTEM_BUSY
            assert reply.remark is not None
            assert reply.remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control")
        bed.broker.messages.late_sends.note_alive()
        sent = await client.ask(RequestCode.SEND_MESSAGE_V2, common_send_header("t"), b"x")
        assert sent.code == ResponseCode.SUCCESS


async def test_what_returns_late_is_refused_too(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, send_wait_ms_max=WAIT_MS) as bed:
        client = bed.connect()
        bed.clock.advance(1)
        header = SendBackHeader(offset=0, group="readers", delay_level=0)
        reply = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        assert reply.code == ResponseCode.SYSTEM_BUSY


@pytest.mark.parametrize(
    ("settings", "wait_s_max"),
    [
        ({}, 0.0),
        ({"waitTimeMillsInSendQueue": "200"}, 0.2),
        ({"waitTimeMillsInSendQueue": "200", "brokerFastFailureEnable": "false"}, 0.0),
    ],
)
def test_apaches_keys_say_how_long_a_send_may_wait(
    tmp_path: Path, settings: dict[str, str], wait_s_max: float
) -> None:
    assert read_config(settings, tmp_path).config.send_wait_s_max == wait_s_max
