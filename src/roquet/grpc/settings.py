"""Settings of clients: what they report, and what the server decides.

Settings come back with how often and how late messages are retried, how long receives wait, whether
a group is ordered.
"""

from typing import Final

from roquet.grpc.codes import Code, RefusedCall, status_of
from roquet.grpc.message_form import duration_of
from roquet.grpc.names import group_name, topic_name
from roquet.grpc.outgoing import BODY_SIZE_MAX
from roquet.grpc.receives import BATCH_COUNT_MAX, POLL_S_MAX, attempts_max, subscription_of
from roquet.grpc.schema import Message, pb
from roquet.protocol.bodies.clients import SubscriptionData
from roquet.protocol.bodies.groups import GroupConfig

# Of a producer that gets an error; SDKs bring their own if there is none.
_SEND_ATTEMPTS: Final = 3
_SEND_BACKOFF_MS: Final = (10, 1_000)
_BACKOFF_FACTOR: Final = 2.0
# Without a policy of its own a group retries after these times.
_RETRY_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600)
_LONGEST_RETRY_S: Final = 7200


def group_of(given: Message) -> str | None:
    """The group of a consumer. Raises RefusedCall."""
    return group_name(given.subscription.group) if given.HasField("subscription") else None


def merged_settings(given: Message, group: GroupConfig | None) -> Message:
    """`group` is that of a consumer; None has the settings that new groups have.

    Raises RefusedCall.
    """
    settings = pb.Settings()
    settings.CopyFrom(given)
    settings.metric.on = False
    if given.HasField("publishing"):
        for topic in given.publishing.topics:
            topic_name(topic)
        settings.publishing.max_body_size = BODY_SIZE_MAX
        settings.publishing.validate_message_type = True
        first_ms, longest_ms = _SEND_BACKOFF_MS
        settings.backoff_policy.CopyFrom(
            pb.RetryPolicy(
                max_attempts=_SEND_ATTEMPTS,
                exponential_backoff=pb.ExponentialBackoff(
                    initial=duration_of(first_ms),
                    max=duration_of(longest_ms),
                    multiplier=_BACKOFF_FACTOR,
                ),
            )
        )
    elif given.HasField("subscription"):
        name = group_name(given.subscription.group)
        for entry in given.subscription.subscriptions:
            topic_name(entry.topic)
        group = group or GroupConfig(group_name=name)
        settings.subscription.fifo = group.consume_message_orderly
        settings.subscription.receive_batch_size = BATCH_COUNT_MAX
        settings.subscription.long_polling_timeout.CopyFrom(duration_of(round(POLL_S_MAX * 1000)))
        settings.backoff_policy.CopyFrom(_retry_policy(group))
    else:
        raise RefusedCall(Code.BAD_REQUEST, "settings are of a producer or of a consumer")
    return settings


def _retry_policy(group: GroupConfig) -> Message:
    policy = pb.RetryPolicy(max_attempts=attempts_max(group))
    given = group.group_retry_policy
    if given is not None and given.type == "EXPONENTIAL" and given.exponential_retry_policy:
        retry = given.exponential_retry_policy
        policy.exponential_backoff.CopyFrom(
            pb.ExponentialBackoff(
                initial=duration_of(retry.initial),
                max=duration_of(retry.max),
                multiplier=retry.multiplier,
            )
        )
        return policy
    times_ms = [each * 1000 for each in (*_RETRY_S, _LONGEST_RETRY_S)]
    if given is not None and given.customized_retry_policy and given.customized_retry_policy.next:
        times_ms = given.customized_retry_policy.next
    policy.customized_backoff.next.extend(map(duration_of, times_ms))
    return policy


def answered_settings(settings: Message) -> bytes:
    command = pb.TelemetryCommand(status=status_of(Code.OK), settings=settings)
    data: bytes = command.SerializeToString()
    return data


def subscriptions_in(subscription: Message) -> list[SubscriptionData]:
    """Those that members of a group register. Raises RefusedCall."""
    found = []
    for entry in subscription.subscriptions:
        parsed = subscription_of(entry.topic.name, entry.expression)
        found.append(
            SubscriptionData(
                topic=parsed.topic,
                sub_string=parsed.expression,
                expression_type=parsed.expression_type,
                tags_set=list(parsed.tags),
                code_set=sorted(parsed.codes),
            )
        )
    return found
