"""The messages of apache.rocketmq.v2.MessagingService, and the classes that read and write them.

One line per message: the number, name and type of each field. A type with `?` knows whether it was
set, one with `*` is repeated. Enumerations are numbers on the wire, and here; `codes` has their
names. Fields that are not named are skipped by readers, so only what a server needs is here.
Names and numbers are those of rocketmq-python-client 5.1.2, which a test compares them with.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = f"/{PACKAGE}.MessagingService/"

# A message of any of these classes: they are made at run time, so no type checker knows them.
Message = Any

MESSAGES: Final = """
Timestamp: 1 seconds int64, 2 nanos int32
Duration: 1 seconds int64, 2 nanos int32
Resource: 1 resource_namespace string, 2 name string
FilterExpression: 1 type int32, 2 expression string
ExponentialBackoff: 1 initial Duration, 2 max Duration, 3 multiplier float
CustomizedBackoff: 1 next Duration*
RetryPolicy: 1 max_attempts int32, 2 exponential_backoff ExponentialBackoff, 3 customized_backoff CustomizedBackoff
SubscriptionEntry: 1 topic Resource, 2 expression FilterExpression
Address: 1 host string, 2 port int32
Endpoints: 1 scheme int32, 2 addresses Address*
Broker: 1 name string, 2 id int32, 3 endpoints Endpoints
MessageQueue: 1 topic Resource, 2 id int32, 3 permission int32, 4 broker Broker, 5 accept_message_types int32*
Digest: 1 type int32, 2 checksum string
DeadLetterQueue: 1 topic string, 2 message_id string
SystemProperties: 1 tag string?, 2 keys string*, 3 message_id string, 4 body_digest Digest, 5 body_encoding int32, 6 message_type int32, 7 born_timestamp Timestamp, 8 born_host string, 9 store_timestamp Timestamp, 10 store_host string, 11 delivery_timestamp Timestamp, 12 receipt_handle string?, 13 queue_id int32, 14 queue_offset int64?, 15 invisible_duration Duration, 16 delivery_attempt int32?, 17 message_group string?, 18 trace_context string?, 19 orphaned_transaction_recovery_duration Duration, 20 dead_letter_queue DeadLetterQueue, 21 lite_topic string?, 22 priority int32?
UserProperty: 1 key string, 2 value string
Message: 1 topic Resource, 2 user_properties UserProperty*, 3 system_properties SystemProperties, 4 body bytes
Assignment: 1 message_queue MessageQueue
Status: 1 code int32, 2 message string
UA: 1 language int32, 2 version string, 3 platform string, 4 hostname string
Metric: 1 on bool, 2 endpoints Endpoints
Publishing: 1 topics Resource*, 2 max_body_size int32, 3 validate_message_type bool
Subscription: 1 group Resource, 2 subscriptions SubscriptionEntry*, 3 fifo bool?, 4 receive_batch_size int32?, 5 long_polling_timeout Duration
Settings: 1 client_type int32?, 2 access_point Endpoints, 3 backoff_policy RetryPolicy, 4 request_timeout Duration, 5 publishing Publishing, 6 subscription Subscription, 7 user_agent UA, 8 metric Metric
QueryRouteRequest: 1 topic Resource, 2 endpoints Endpoints
QueryRouteResponse: 1 status Status, 2 message_queues MessageQueue*
SendMessageRequest: 1 messages Message*
SendResultEntry: 1 status Status, 2 message_id string, 3 transaction_id string, 4 offset int64, 5 recall_handle string
SendMessageResponse: 1 status Status, 2 entries SendResultEntry*
QueryAssignmentRequest: 1 topic Resource, 2 group Resource, 3 endpoints Endpoints
QueryAssignmentResponse: 1 status Status, 2 assignments Assignment*
ReceiveMessageRequest: 1 group Resource, 2 message_queue MessageQueue, 3 filter_expression FilterExpression, 4 batch_size int32, 5 invisible_duration Duration, 6 auto_renew bool, 7 long_polling_timeout Duration, 8 attempt_id string?
ReceiveMessageResponse: 1 status Status, 2 message Message, 3 delivery_timestamp Timestamp
AckMessageEntry: 1 message_id string, 2 receipt_handle string
AckMessageRequest: 1 group Resource, 2 topic Resource, 3 entries AckMessageEntry*
AckMessageResultEntry: 1 message_id string, 2 receipt_handle string, 3 status Status
AckMessageResponse: 1 status Status, 2 entries AckMessageResultEntry*
ForwardMessageToDeadLetterQueueRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle string, 4 message_id string, 5 delivery_attempt int32, 6 max_delivery_attempts int32
ForwardMessageToDeadLetterQueueResponse: 1 status Status
HeartbeatRequest: 1 group Resource, 2 client_type int32
HeartbeatResponse: 1 status Status
EndTransactionRequest: 1 topic Resource, 2 message_id string, 3 transaction_id string, 4 resolution int32, 5 source int32, 6 trace_context string
EndTransactionResponse: 1 status Status
PrintThreadStackTraceCommand: 1 nonce string
ReconnectEndpointsCommand: 1 nonce string
ThreadStackTrace: 1 nonce string, 2 thread_stack_trace string?
VerifyMessageCommand: 1 nonce string, 2 message Message
VerifyMessageResult: 1 nonce string
RecoverOrphanedTransactionCommand: 1 message Message, 2 transaction_id string
TelemetryCommand: 1 status Status, 2 settings Settings, 3 thread_stack_trace ThreadStackTrace, 4 verify_message_result VerifyMessageResult, 5 recover_orphaned_transaction_command RecoverOrphanedTransactionCommand, 6 print_thread_stack_trace_command PrintThreadStackTraceCommand, 7 verify_message_command VerifyMessageCommand, 8 reconnect_endpoints_command ReconnectEndpointsCommand
NotifyClientTerminationRequest: 1 group Resource
NotifyClientTerminationResponse: 1 status Status
ChangeInvisibleDurationRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle string, 4 invisible_duration Duration, 5 message_id string, 7 suspend bool?
ChangeInvisibleDurationResponse: 1 status Status, 2 receipt_handle string
RecallMessageRequest: 1 topic Resource, 2 recall_handle string
RecallMessageResponse: 1 status Status, 2 message_id string
"""  # noqa: E501  One line per message.

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "float": _Field.TYPE_FLOAT,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="messaging.proto", package=PACKAGE, syntax="proto3"
    )
    for line in MESSAGES.strip().splitlines():
        name, _, fields = line.partition(": ")
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            _add_field(message, *text.split(" "))
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, number: str, name: str, text: str) -> None:
    kind = text.rstrip("?*")
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if text.endswith("*"):
        field.label = _Field.LABEL_REPEATED
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"
    if text.endswith("?"):
        # A field that knows whether it was set is the only one of its own oneof.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


class _Classes:
    """Attributes are the classes of messages. A pool of their own: others may know the package."""

    def __init__(self) -> None:
        pool = descriptor_pool.DescriptorPool()
        pool.Add(_file())
        found = message_factory.GetMessageClassesForFiles(["messaging.proto"], pool)
        self._by_name = {name.rpartition(".")[2]: each for name, each in found.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self._by_name[name]
        except KeyError:
            raise AttributeError(name) from None


pb: Final = _Classes()
