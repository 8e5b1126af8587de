"""Requests of a raw client of gRPC, and their answers."""

from typing import Any

from roquet.grpc.codes import ClientType, MessageType
from roquet.grpc.schema import Message, pb
from tests.support.grpc_client import GrpcTestClient

GROUP = "readers"
ENDPOINTS = pb.Endpoints(scheme=3, addresses=[pb.Address(host="mapped.example", port=30081)])


def message(topic: str = "normal", body: bytes = b"hello", **system: Any) -> Message:
    properties = {"message_id": "0102FC01", "message_type": MessageType.NORMAL, **system}
    return pb.Message(
        topic=pb.Resource(name=topic),
        body=body,
        system_properties=pb.SystemProperties(**properties),
        user_properties=[pb.UserProperty(key="city", value="Rome")],
    )


async def sent(client: GrpcTestClient, *sent_messages: Message) -> Any:
    return await client.call("SendMessage", pb.SendMessageRequest(messages=sent_messages))


async def as_consumer(client: GrpcTestClient, topic: str = "normal") -> int:
    subscription = pb.Subscription(
        group=pb.Resource(name=GROUP),
        subscriptions=[pb.SubscriptionEntry(topic=pb.Resource(name=topic))],
    )
    return await client.settings(client_type=ClientType.SIMPLE_CONSUMER, subscription=subscription)


def receive_request(topic: str = "normal", **members: Any) -> Message:
    given = {"invisible_duration": pb.Duration(seconds=15), "batch_size": 32, **members}
    return pb.ReceiveMessageRequest(
        group=pb.Resource(name=GROUP),
        message_queue=pb.MessageQueue(topic=pb.Resource(name=topic)),
        long_polling_timeout=given.pop("long_polling_timeout", pb.Duration()),
        **given,
    )


async def received(client: GrpcTestClient, request: Message) -> list[Message]:
    stream = await client.finished(client.start("ReceiveMessage", request))
    answers = [pb.ReceiveMessageResponse.FromString(each) for each in stream.messages]
    return [each.message for each in answers if each.HasField("message")]


def ack(*given: Message, topic: str = "normal") -> Message:
    return pb.AckMessageRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name=topic),
        entries=[
            pb.AckMessageEntry(receipt_handle=each.system_properties.receipt_handle)
            for each in given
        ],
    )
