"""Findings about topics and their routes."""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.doctor.finding import Finding, Severity, not_asked
from roquet.client.admin.doctor.servers import permission_in
from roquet.client.admin.topics import BrokerRoute, TopicSettings
from roquet.client.errors import TopicNotFound
from roquet.protocol.codes import Permission


async def examine(
    admin: AsyncAdmin, wanted: str | None, brokers: Mapping[str, Mapping[str, str]]
) -> AsyncIterator[Finding]:
    """`brokers` are the settings of masters."""
    settings = await admin.all_topic_settings()
    if wanted is not None and wanted not in settings:
        if admin.missing:
            yield not_asked(f"topic {wanted}", admin.missing)
            return
        is_made = any(each.get("autoCreateTopicEnable") == "true" for each in brokers.values())
        yield missing_topic(wanted, is_made_by_sends=is_made)
        return
    forbidden = {
        name for name, each in brokers.items() if not permission_in(each) & Permission.WRITE
    }
    for topic in settings if wanted is None else [wanted]:
        try:
            routes = await admin.topic_route(topic)
        except TopicNotFound:
            continue  # Deleted meanwhile.
        for finding in of_topic_routes(topic, routes, settings[topic], forbidden):
            yield finding
    if wanted is not None:
        readers = await admin.topic_groups(wanted)
        text = f"consumed by {', '.join(readers)}" if readers else "not consumed by any group"
        yield Finding(Severity.FINE, f"topic {wanted}", text)


def of_topic_routes(
    topic: str,
    routes: Sequence[BrokerRoute],
    settings: Mapping[str, TopicSettings],
    forbidden: Collection[str] = (),
) -> Iterator[Finding]:
    """`forbidden` are brokers that forbid writes to all topics: a finding of their own."""
    subject = f"topic {topic}"
    wiped = [
        each.broker_name
        for each in routes
        if (own := settings.get(each.broker_name)) is not None
        and own.permission & ~each.permission & Permission.WRITE
    ]
    if not any(each.permission & Permission.WRITE and each.write_queue_count for each in routes):
        remedy = f"roquet topic change {topic} --permission rw"
        if wiped:
            # It is not the topic that forbids them.
            remedy = "; ".join(f"roquet broker writes allow {each}" for each in wiped)
        yield Finding(Severity.PROBLEM, subject, "no broker accepts messages for it", remedy)
    else:
        for broker in (each for each in wiped if each not in forbidden):
            remedy = f"roquet broker writes allow {broker}"
            yield Finding(Severity.WARNING, subject, f"writes are forbidden at {broker}", remedy)
    for route in routes:
        where = f"at {route.broker_name}"
        if not route.permission & Permission.READ:
            remedy = f"roquet topic change {topic} --permission rw"
            yield Finding(Severity.PROBLEM, subject, f"reads are forbidden {where}", remedy)
        if route.write_queue_count > route.read_queue_count:
            yield Finding(
                Severity.PROBLEM,
                subject,
                f"{route.write_queue_count} write queues but only {route.read_queue_count} read"
                f" queues {where}: messages of the others are not delivered",
                f"roquet topic change {topic} --read-queues {route.write_queue_count}",
                f"more write than read queues {where}: messages of the others are not delivered",
            )


def missing_topic(topic: str, *, is_made_by_sends: bool) -> Finding:
    remedy = f"roquet topic create {topic}"
    if is_made_by_sends:
        text = "does not exist yet; the first message creates it, with four queues"
        return Finding(Severity.WARNING, f"topic {topic}", text, remedy)
    text = "does not exist, and automatic creation is off (autoCreateTopicEnable)"
    return Finding(Severity.PROBLEM, f"topic {topic}", text, remedy)
