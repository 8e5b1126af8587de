from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.heartbeat import ConsumerData, Heartbeat, ProducerData
from roquet.protocol.bodies.subscription_data import SubscriptionData


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
