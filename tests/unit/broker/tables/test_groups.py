"""The consumer groups of a broker."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from roquet.broker.errors import (
    BadAttributes,
    BadName,
    BadQueueCount,
    NoMoreGroups,
    TableNotWritten,
    UnknownGroup,
)
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.topics import QUEUE_COUNT_MAX
from roquet.protocol.bodies.body import DataVersion, read_body
from roquet.protocol.bodies.groups import GroupConfig, GroupConfigTable
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadBody
from roquet.protocol.lenient_json import strict_json
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.golden_state import STORES, golden_state
from tests.support.raising import raises


def group(name: str, **settings: Any) -> GroupConfig:
    return GroupConfig(group_name=name, **settings)


def table(*groups: GroupConfig) -> GroupTable:
    made = GroupTable(FakeClock(), ())
    made.load(
        msgspec.json.encode(
            GroupConfigTable(subscription_group_table={each.group_name: each for each in groups})
        )
    )
    return made


def test_clients_make_no_more_groups_than_there_may_be() -> None:
    groups = GroupTable(FakeClock(), built_in=())
    made = groups.find_or_create("a", may_create=True, count_max=1)
    with raises(NoMoreGroups, limit=1):
        groups.find_or_create("b", may_create=True, count_max=1)
    assert groups.find_or_create("a", may_create=True, count_max=1) is made
    with pytest.raises(UnknownGroup):
        groups.find_or_create("b", may_create=False, count_max=1)
    groups.update(GroupConfig(group_name="b"))


def test_the_built_in_groups_are_those_of_apache() -> None:
    recorded = read_body(GroupConfigTable, golden_state("v49_clean", "subscriptionGroup.json"))
    theirs = recorded.subscription_group_table
    ours = {each.group_name: each for each in GroupTable(FakeClock())}
    assert {name: theirs.get(name) for name in ours} == ours
    assert {name for name in theirs if not name.startswith("Gold49Clean")} == set(ours)


@pytest.mark.parametrize(("name", "may_create"), [("orders", True), ("CID_RMQ_SYS_TRANS", False)])
def test_an_unknown_group_is_created_when_it_may(name: str, may_create: bool) -> None:
    groups = table()
    made = groups.find_or_create(name, may_create=may_create)
    assert made == group(name)
    assert groups.find(name) is made
    assert groups.find_or_create(name, may_create=may_create) is made
    assert groups.change_count == 1


def test_an_unknown_group_is_refused_when_it_may_not_be_created() -> None:
    groups = table()
    with pytest.raises(UnknownGroup) as caught:
        groups.find_or_create("orders", may_create=False)
    assert caught.value.code is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "orders" not in groups


@pytest.mark.parametrize("name", ["", "a.b", "a@b", "../up", "x" * 128])
def test_no_group_gets_a_bad_name(name: str) -> None:
    groups = table()
    with pytest.raises(BadName):
        groups.find_or_create(name, may_create=True)
    with pytest.raises(BadName):
        groups.update(group(name))
    assert list(groups) == []


def test_an_update_replaces_settings_and_changes_attributes() -> None:
    groups = table(group("orders", attributes={"kept": "1", "removed": "2"}))
    handed_out = groups.find("orders")
    groups.update(group("orders", retry_max_times=3, attributes={"-removed": "", "+added": "3"}))
    assert groups.find("orders") == group(
        "orders", retry_max_times=3, attributes={"kept": "1", "added": "3"}
    )
    assert handed_out is not None
    assert handed_out.retry_max_times == 16


def test_an_update_that_cannot_be_made_changes_nothing() -> None:
    groups = table(group("orders"))
    with pytest.raises(BadAttributes):
        groups.update(group("orders", attributes={"-missing": ""}))
    for queue_count in (-1, QUEUE_COUNT_MAX + 1):
        with pytest.raises(BadQueueCount):
            groups.update(group("orders", retry_queue_nums=queue_count))
    assert list(groups) == [group("orders")]
    assert groups.change_count == 0


@pytest.mark.parametrize("queue_count", [0, QUEUE_COUNT_MAX])
def test_the_limits_of_retry_queues_can_be_reached(queue_count: int) -> None:
    groups = table()
    groups.update(group("orders", retry_queue_nums=queue_count))
    assert list(groups) == [group("orders", retry_queue_nums=queue_count)]


def test_a_deleted_group_is_gone() -> None:
    groups = table(group("orders"))
    assert groups.delete("orders")
    assert groups.find("orders") is None
    assert not groups.delete("orders")
    assert groups.change_count == 1


def test_every_change_makes_a_new_version() -> None:
    clock = FakeClock()
    groups = GroupTable(clock, ())
    assert groups.version == DataVersion(counter=0, timestamp=START_MS)
    clock.advance(5)
    groups.find_or_create("a", may_create=True)
    groups.delete("a")
    assert groups.version == DataVersion(counter=2, timestamp=START_MS + 5_000)


@pytest.mark.parametrize("store", STORES)
def test_a_file_of_apache_is_read_and_written_without_loss(store: str) -> None:
    data = golden_state(store, "subscriptionGroup.json")
    groups = table()
    assert groups.load(data) == []
    assert groups.change_count == 0
    theirs = msgspec.json.decode(strict_json(data))
    ours = msgspec.json.decode(groups.to_bytes())
    for version in (theirs["dataVersion"], ours["dataVersion"]):
        version.setdefault("stateVersion", 0)
    # 5.x always writes these, 4.9 never; an absent one is the default on both sides.
    defaults = {
        "attributes": {},
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupSysFlag": 0,
    }
    for tables in (theirs, ours):
        tables.setdefault("forbiddenTable", {})
        for name, each in tables["subscriptionGroupTable"].items():
            tables["subscriptionGroupTable"][name] = defaults | each
    assert ours == theirs


def test_what_5x_forbids_a_group_is_kept_as_long_as_the_group() -> None:
    groups = table()
    groups.load(
        b'{"forbiddenTable":{"a":{"orders":1},"b":{"bills":2}},'
        b'"subscriptionGroupTable":{"a":{"groupName":"a"},"b":{"groupName":"b"}}}'
    )
    groups.delete("a")
    assert groups.snapshot().forbidden_table == {"b": {"bills": 2}}


def test_a_file_is_laid_over_the_built_in_groups() -> None:
    groups = GroupTable(FakeClock(), ("TOOLS_CONSUMER", "SELF_TEST_C_GROUP"))
    saved = table(group("TOOLS_CONSUMER", retry_max_times=1), group("orders"))
    assert groups.load(saved.to_bytes()) == []
    assert {each.group_name: each.retry_max_times for each in groups} == {
        "TOOLS_CONSUMER": 1,
        "SELF_TEST_C_GROUP": 16,
        "orders": 16,
    }


def test_a_group_with_a_bad_name_is_left_out_of_a_file() -> None:
    groups = table()
    data = b'{"subscriptionGroupTable":{"a/b":{"groupName":"a"},"a":{"groupName":"a/b"}}}'
    assert groups.load(data) == ["a/b"]
    assert list(groups) == [group("a")]


def test_a_broken_file_changes_nothing() -> None:
    groups = table(group("orders"))
    with pytest.raises(BadBody):
        groups.load(b'{"subscriptionGroupTable":{"a":{"groupName":"a"},"b":')
    assert list(groups) == [group("orders")]


CHANGES: list[Callable[[GroupTable], object]] = [
    lambda groups: groups.find_or_create("new", may_create=True),
    lambda groups: groups.update(group("old", retry_max_times=1)),
    lambda groups: groups.delete("old"),
]
NO_CHANGES: list[Callable[[GroupTable], object]] = [
    lambda groups: groups.find_or_create("old", may_create=True),
    lambda groups: groups.delete("new"),
    lambda groups: groups.load(b"{}"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_reported_once_it_can_be_seen(
    change: Callable[[GroupTable], object],
) -> None:
    groups = table(group("old"))
    seen: list[tuple[bytes, int]] = []
    groups.on_change = lambda: seen.append((groups.to_bytes(), groups.change_count))
    change(groups)
    assert seen == [(groups.to_bytes(), 1)]


@pytest.mark.parametrize("change", NO_CHANGES)
def test_what_is_no_change_is_not_reported(change: Callable[[GroupTable], object]) -> None:
    groups = table(group("old"))
    reports: list[int] = []
    groups.on_change = lambda: reports.append(1)
    change(groups)
    assert reports == []


# --- epochs ---


def version(epoch: int, counter: int, timestamp: int = 1) -> DataVersion:
    return DataVersion(state_version=epoch, counter=counter, timestamp=timestamp)


def of_master(known: DataVersion, *groups: GroupConfig) -> GroupConfigTable:
    named = {each.group_name: each for each in groups}
    return GroupConfigTable(data_version=known, subscription_group_table=named)


def copy_of(known: DataVersion, *groups: GroupConfig) -> GroupTable:
    """What a slave has."""
    made = GroupTable(FakeClock(), (), has_epochs=True)
    made.follow(of_master(known, *groups))
    return made


def refuse(name: str, _settings: object, _version: object) -> None:
    raise TableNotWritten(name, "no space")


def test_a_change_is_written_before_it_is_made() -> None:
    groups = GroupTable(FakeClock(), (), has_epochs=True)
    groups.lead(5)
    written: list[tuple[str, GroupConfig | None, DataVersion, bool]] = []
    groups.write_ahead = lambda name, settings, known: written.append(
        (name, settings, known, name in groups)
    )
    made = groups.update(group("readers", retry_max_times=3))
    groups.delete("readers")
    assert written == [
        ("readers", made, version(5, 2, START_MS), False),
        ("readers", None, version(5, 3, START_MS), True),
    ]
    assert groups.version == version(5, 3, START_MS)


def test_what_an_operator_wants_and_cannot_be_written_is_not_made() -> None:
    groups = table(group("known"))
    groups.write_ahead = refuse
    with pytest.raises(TableNotWritten):
        groups.update(group("known", retry_max_times=3))
    with pytest.raises(TableNotWritten):
        groups.delete("known")
    assert list(groups) == [group("known")]


def test_a_consumer_gets_its_group_although_nothing_can_be_written() -> None:
    groups = table()
    groups.write_ahead = refuse
    assert groups.find_or_create("readers", may_create=True) == group("readers")


def test_a_slave_applies_what_is_newer_and_nothing_else() -> None:
    groups = copy_of(version(5, 7), group("readers"), group("gone"))
    assert groups.apply("readers", group("readers", retry_max_times=3), version(5, 8))
    assert groups.apply("gone", None, version(5, 9))
    assert not groups.apply("readers", None, version(5, 9))
    assert groups.apply("no/name", group("no/name"), version(5, 10))
    assert list(groups) == [group("readers", retry_max_times=3)]


def test_a_copy_does_not_undo_what_the_log_has_brought() -> None:
    groups = copy_of(version(5, 7), group("readers"))
    groups.apply("readers", group("readers", retry_max_times=3), version(5, 8))
    groups.follow(of_master(version(5, 7), group("readers")))
    assert list(groups) == [group("readers", retry_max_times=3)]
    groups.follow(of_master(version(6, 1), group("readers")))
    assert list(groups) == [group("readers")]


def test_what_a_slave_makes_itself_gives_way_to_the_next_copy() -> None:
    groups = copy_of(version(5, 7), group("readers"))
    groups.find_or_create("started-here", may_create=True)
    assert "started-here" in groups
    groups.follow(of_master(version(5, 7), group("readers")))
    assert list(groups) == [group("readers")]


def test_after_a_cut_of_the_log_only_what_it_has_left_counts() -> None:
    groups = copy_of(version(5, 7), group("readers", retry_max_times=3))
    groups.forget_version()
    assert groups.apply("readers", group("readers"), version(5, 3))
    assert list(groups) == [group("readers")]
