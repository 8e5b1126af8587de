"""Old files, and the operator who wants them gone."""

from pathlib import Path

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from tests.support.broker_bed import BrokerBed, broker_bed


def fill_log(bed: BrokerBed, file_count: int) -> None:
    """Small stores have files of 4 KiB."""
    while len(list((bed.broker.config.store.root / "commitlog").iterdir())) < file_count:
        bed.put(bytes(500))


async def test_old_files_go_when_an_operator_asks_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with broker_bed(tmp_path) as bed:
        fill_log(bed, 4)
        bed.clock.advance(73 * 3600)
        reply = await bed.connect().ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert reply.code == ResponseCode.SUCCESS
        assert bed.broker.store.log_start > 0
        assert "files of the log" in caplog.text


async def test_the_age_of_files_is_what_the_operator_last_set(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        client = bed.connect()
        fill_log(bed, 4)
        bed.clock.advance(25 * 3600)
        await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert bed.broker.store.log_start == 0
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=24\n")
        await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert bed.broker.store.log_start > 0


async def test_young_files_stay(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        fill_log(bed, 4)
        await bed.connect().ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert bed.broker.store.log_start == 0
