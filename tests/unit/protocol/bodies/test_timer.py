import pytest

from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.brokers import (
    TimerCheckpoint,
    read_timer_checkpoint,
    write_timer_checkpoint,
)
from roquet.protocol.errors import BadBody
from tests.support.golden_frames import golden_frames


def test_golden_checkpoints_are_written_as_java_writes_them() -> None:
    golden = [
        frame.command.body
        for frame in golden_frames()
        if frame.request_code == 60 and frame.command.body
    ]
    assert len(golden) == 4
    for data in golden:
        assert write_timer_checkpoint(read_timer_checkpoint(data)) == data


def test_every_number_has_its_place() -> None:
    data = b"".join(number.to_bytes(8, "big") for number in range(1, 8))
    version = DataVersion(state_version=5, timestamp=6, counter=7)
    assert read_timer_checkpoint(data) == TimerCheckpoint(1, 2, 3, 4, version)


def test_an_old_checkpoint_has_no_version() -> None:
    data = b"".join(number.to_bytes(8, "big") for number in range(1, 5))
    assert read_timer_checkpoint(data) == TimerCheckpoint(1, 2, 3, 4, DataVersion())


@pytest.mark.parametrize("size", [0, 31, 33, 55, 57])
def test_another_size_is_refused(size: int) -> None:
    with pytest.raises(BadBody):
        read_timer_checkpoint(bytes(size))
