"""What was changed at run time, after a restart."""

from collections.abc import Mapping

import pytest

from roquet.errors import RoquetError
from roquet.settings.changes import BadChanges, ChangedSettings


class Refusal(RoquetError):
    pass


def changed(config: dict[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    if "bad" in settings.values():
        raise Refusal("this cannot be")
    return config | dict(settings)


def restarted(table: ChangedSettings, start: dict[str, str]) -> ChangedSettings:
    after = ChangedSettings(start)
    after.load(table.to_bytes())
    return after


def in_force(table: ChangedSettings, start: dict[str, str]) -> dict[str, str]:
    return table.applied_to(start, changed)


def test_a_change_wins_over_the_file_that_was_there_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    start = {"a": "1", "b": "2"}
    table = ChangedSettings(start)
    table.note({"a": "9"})
    after = restarted(table, start)
    assert in_force(after, start) == {"a": "9", "b": "2"}
    assert after.change_count == 0
    assert "a=9: set at run time, replaces the configured value 1" in caplog.text


def test_a_file_that_says_something_new_wins_over_the_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    table = ChangedSettings({"a": "1"})
    table.note({"a": "9"})
    after = restarted(table, {"a": "5"})
    assert in_force(after, {"a": "5"}) == {"a": "5"}
    assert "a=5: the configured value has changed and replaces 9" in caplog.text
    # And for good: the old file does not bring the change back.
    assert after.change_count == 1
    assert in_force(restarted(after, {"a": "1"}), {"a": "1"}) == {"a": "1"}


def test_other_keys_of_the_file_do_not_matter() -> None:
    table = ChangedSettings({"a": "1", "b": "2"})
    table.note({"a": "9"})
    start = {"a": "1", "b": "3"}
    assert in_force(restarted(table, start), start) == {"a": "9", "b": "3"}


def test_a_second_change_is_held_against_the_file_of_its_own_start() -> None:
    table = ChangedSettings({"a": "1"})
    table.note({"a": "9"})
    second = restarted(table, {"a": "5"})
    second.applied_to({"a": "5"}, changed)
    second.note({"a": "7"})
    assert in_force(restarted(second, {"a": "5"}), {"a": "5"}) == {"a": "7"}


def test_changing_back_leaves_no_change() -> None:
    table = ChangedSettings({"a": "1"})
    table.note({"a": "9"})
    table.note({"a": "1"})
    assert table.to_bytes() == b"{}"
    assert table.change_count == 2


def test_what_cannot_be_changed_any_more_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    start = {"a": "1", "b": "2"}
    table = ChangedSettings(start)
    table.note({"a": "bad", "b": "9"})
    after = restarted(table, start)
    assert in_force(after, start) == {"a": "1", "b": "9"}
    assert after.change_count == 1
    assert "dropped a=bad" in caplog.text


def test_a_setting_that_is_gone_is_forgotten() -> None:
    table = ChangedSettings({"a": "1"})
    table.note({"a": "9"})
    assert in_force(restarted(table, {}), {}) == {}


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"a":"9"}', b'{"a":{"value":1}}', b"\xff"])
def test_what_is_no_table_is_an_error_with_a_name(data: bytes) -> None:
    with pytest.raises(BadChanges):
        ChangedSettings({}).load(data)
