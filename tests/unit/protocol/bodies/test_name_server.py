from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.name_server import BrokerData, QueueData, TopicRoute
from roquet.protocol.lenient_json import with_bare_integer_keys

ROUTE = TopicRoute(
    broker_datas=[
        BrokerData(
            broker_name="b", cluster="c", broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:1"}
        )
    ],
    queue_datas=[QueueData(broker_name="b", read_queue_nums=8, write_queue_nums=4)],
)


def test_clients_before_494_get_a_route_with_bare_broker_ids() -> None:
    text = with_bare_integer_keys(write_body(ROUTE))
    assert text == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:1"},"brokerName":"b",'
        b'"cluster":"c"}],"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,'
        b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert read_body(TopicRoute, text) == ROUTE
