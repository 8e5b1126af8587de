from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.store.files.layout import layout_of
from roquet.store.offline.audit import state_faults, state_file_names

GOOD = b'{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{}}'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    return tmp_path / "config"


def faults(config: Path) -> list[str]:
    layout = layout_of(config.parent)
    disk = SystemDisk()
    return [str(each) for each in state_faults(disk, layout, state_file_names(disk, layout))]


def test_files_that_can_be_read_have_no_faults(config: Path) -> None:
    (config / "topics.json").write_bytes(GOOD)
    (config / "consumerOffset.json").write_bytes(b'{"offsetTable":{"t@g":{0:7,1:8}}}')  # Java's
    (config / "timers.json").write_bytes(b'{"deliveredUntilS":1}')
    (config / "timercheck").write_bytes(b"\x00not ours to judge")
    assert faults(config) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (GOOD[:-5], "Input data was truncated"),
        (b"", "empty"),
        (b'{"topicConfigTable":[1]}', "Expected `object`, got `array`"),
    ],
)
def test_a_broken_file_is_reported_with_what_a_broker_will_do(
    config: Path, content: bytes, reason: str
) -> None:
    (config / "topics.json").write_bytes(content)
    (config / "topics.json.bak").write_bytes(GOOD)
    (fault,) = faults(config)
    assert fault.startswith(f"state: config/topics.json: {reason}")
    assert fault.endswith("; the older backup is used instead")
    (config / "topics.json.bak").write_bytes(b"[")
    (fault,) = faults(config)
    assert "its backup cannot be read either" in fault
    assert fault.endswith("a broker starts without it")


def test_a_file_of_any_other_name_has_to_be_json(config: Path) -> None:
    (config / "changedSettings.json").write_bytes(b"{")
    (fault,) = faults(config)
    assert fault.startswith("state: config/changedSettings.json: ")


def test_a_file_without_a_backup_may_be_missing_in_between(config: Path) -> None:
    (config / "topics.json.bak").write_bytes(GOOD)
    (fault,) = faults(config)
    assert fault == ("state: config/topics.json: missing; the older backup is used instead")
