"""`roquet mqadmin` about messages: what only Apache's tool has."""

from roquet.protocol.java_hash import java_hash
from tests.support.command_line import roquet
from tests.unit.cli.conftest import Shop
from tests.unit.cli.mqadmin.asking import answer, failure

QUEUE = ("-t", "orders", "-a", "broker-a", "-i", "0")


def bodies(rows: list[dict[str, str]]) -> list[str]:
    return [row["body"] for row in rows]


def test_entries_of_a_queue(at: Shop) -> None:
    address = next(each.address for each in at.admin.brokers() if each.broker_name == "broker-a")
    words = ("queryCq", "-t", "orders", "-q", "0", "-i", "1", "-c", "9", "-b", address)
    found = answer(*words, "-g", "absent")
    assert (found["min_offset"], found["max_offset"]) == (0, 3)
    assert [row["offset"] for row in found["entries"]] == [1, 2]
    assert {row["tags_code"] for row in found["entries"]} == {java_hash("new")}
    assert found["remark"] == "group 'absent' is not connected"


def test_entries_are_of_the_first_broker_unless_one_is_named(at: Shop) -> None:
    found = answer("queryCq", "-t", "orders", "-q", "0", "-i", "0", "-c", "2")
    assert (found["broker"], len(found["entries"])) == ("broker-a", 2)
    assert failure("queryCq", "-t", "absent", "-q", "0", "-i", "0")[0] == 4


def test_messages_of_a_queue_with_and_without_bodies(at: Shop) -> None:
    found = answer("printMsgByQueue", *QUEUE, "-p", "true", "-d", "true")
    assert bodies(found["messages"]) == ["order 0", "order 1", "order 2"]
    (first, *_) = answer("printMsgByQueue", *QUEUE, "-p", "true")["messages"]
    assert first["message_id"] == at.message_ids[0]
    assert "body" not in first
    assert answer("printMsgByQueue", *QUEUE) == {"messages_read": 3}


def test_messages_of_a_queue_are_counted_by_tag(at: Shop) -> None:
    found = answer("printMsgByQueue", *QUEUE, "-f", "true")
    assert found["tags"] == [{"tag": "new", "messages": 3}]
    assert answer("printMsgByQueue", *QUEUE, "-f", "true", "-s", "old")["tags"] == []


def test_messages_of_a_queue_by_time(at: Shop) -> None:
    past = ("-b", "2020-01-01#10:00:00:000", "-e", "2020-01-02#10:00:00:000")
    assert answer("printMsgByQueue", *QUEUE, *past)["messages_read"] == 0
    assert answer("printMsgByQueue", *QUEUE, *past[:2])["messages_read"] == 3


def test_a_queue_that_is_not_there(at: Shop) -> None:
    exit_code, text = failure("printMsgByQueue", "-t", "orders", "-a", "broker-a", "-i", "9")
    assert exit_code == 4
    assert "topic 'orders' has no queue broker-a:9" in text


def test_a_charset_that_is_not_obeyed_is_refused() -> None:
    finished = roquet("mqadmin", "printMsgByQueue", *QUEUE, "-c", "GBK")
    assert finished.exit_code == 2
    assert "'GBK' is not UTF-8" in finished.stderr


def test_messages_are_read_without_committing_an_offset(at: Shop) -> None:
    assert len(answer("consumeMessage", "-t", "orders")["messages"]) == 5
    first = answer("consumeMessage", "-t", "orders", "-c", "1")["messages"]
    assert bodies(first) == ["order 0"]
    at_b = answer("consumeMessage", "-t", "orders", "-b", "broker-b")["messages"]
    assert bodies(at_b) == ["order 3", "order 4"]
    queue = ("-b", "broker-a", "-i", "0")
    rest = answer("consumeMessage", "-t", "orders", *queue, "-o", "1", "-c", "9")["messages"]
    assert bodies(rest) == ["order 1", "order 2"]
    assert at.admin.progress("billing").lag == 2


def test_an_offset_needs_its_queue(at: Shop) -> None:
    assert failure("consumeMessage", "-t", "orders", "-o", "1")[0] == 2
    assert failure("consumeMessage", "-t", "orders", "-i", "1")[0] == 2
