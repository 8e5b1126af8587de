import pytest

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.clients import ConsumerData, Heartbeat, ProducerData, SubscriptionData


def test_a_heartbeat_of_a_cpp_client_lacks_empty_sets_and_has_numbers_as_texts() -> None:
    text = (
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
        b'"groupName":"g","subscriptionDataSet":[{"codeSet":["-7"],"subString":"a",'
        b'"subVersion":"12","tagsSet":["a"],"topic":"t"}]}]}\n'
    )
    subscription = SubscriptionData(
        topic="t", sub_string="a", sub_version=12, tags_set=["a"], code_set=[-7]
    )
    assert read_body(Heartbeat, text) == Heartbeat(
        client_id="c",
        consumer_data_set=[
            ConsumerData(
                group_name="g",
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                subscription_data_set=[subscription],
            )
        ],
    )


def test_a_heartbeat_of_an_old_go_client_has_nulls_for_empty_sets_and_names_of_its_own() -> None:
    text = (
        b'{"clientID":"c","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{"groupName":'
        b'"g","consumeType":"push","messageModel":"push","subscriptionDataSet":null}]}'
    )
    assert read_body(Heartbeat, text) == Heartbeat(
        client_id="c",
        producer_data_set=[ProducerData(group_name="p")],
        consumer_data_set=[ConsumerData(group_name="g", consume_type="push", message_model="push")],
    )


def test_a_heartbeat_of_the_cpp_library_has_numbers_for_choices() -> None:
    # As the library of the Python package rocketmq 0.4.4 sends it, with one topic less.
    text = (
        b'{"clientID":"28042-127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":0,'
        b'"consumeType":1,"groupName":"grp","messageModel":1,"subscriptionDataSet":[{"subString":'
        b'"*","subVersion":"1794793898399","topic":"t"}]}]}\n'
    )
    (consumer,) = read_body(Heartbeat, text).consumer_data_set
    assert consumer == ConsumerData(
        group_name="grp",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        subscription_data_set=[
            SubscriptionData(topic="t", sub_string="*", sub_version=1794793898399)
        ],
    )


@pytest.mark.parametrize(
    ("number", "name"),
    [(4, "CONSUME_FROM_FIRST_OFFSET"), (5, "CONSUME_FROM_TIMESTAMP"), (6, None), (-1, None)],
)
def test_a_number_is_a_place_in_the_enum_of_java(number: int, name: str | None) -> None:
    text = b'{"groupName":"g","consumeFromWhere":%d}' % number
    assert read_body(ConsumerData, text).consume_from_where == name
