"""Stored messages as SDKs get them, whoever has sent them."""

import pytest

from roquet.grpc.codes import MessageType
from roquet.grpc.message_form import shown_message
from roquet.grpc.schema import Message
from roquet.protocol.messages.record import read_record
from tests.support.drafts import draft
from tests.support.records import record_of


def shown(**properties: str) -> Message:
    stored = read_record(record_of(draft(b"hello", topic="orders", properties=properties)))
    return shown_message(stored, "orders")


def test_a_message_of_remoting_was_born_at_the_address_of_its_client() -> None:
    assert shown().system_properties.born_host == "127.0.0.1"


def test_a_message_of_grpc_was_born_where_its_client_wants() -> None:
    assert shown(__BORNHOST="laptop").system_properties.born_host == "laptop"


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({"__SHARDINGKEY": "orders-1"}, MessageType.FIFO),
        ({"DELAY": "1"}, MessageType.DELAY),
        ({"TRAN_MSG": "true"}, MessageType.TRANSACTION),
    ],
)
def test_the_type_follows_from_the_properties(
    properties: dict[str, str], kind: MessageType
) -> None:
    assert shown(**properties).system_properties.message_type == kind


def test_a_message_group_is_no_property_of_a_user() -> None:
    found = shown(__SHARDINGKEY="orders-1", city="Rome")
    assert found.system_properties.message_group == "orders-1"
    assert [(each.key, each.value) for each in found.user_properties] == [("city", "Rome")]
