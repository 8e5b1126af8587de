"""Findings about topics and their routes."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from roquet.cli.admin_commands.commands import Session
from roquet.cli.doctor.finding import Finding, Severity
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.topics import BrokerRoute, TopicSettings
from roquet.client.errors import TopicNotFound
from roquet.protocol.codes import Permission


async def examine(session: Session, brokers: list[BrokerInfo]) -> AsyncIterator[Finding]:
    admin, wanted = session.admin, session.given.topic
    settings = await admin.all_topic_settings()
    if wanted is not None and wanted not in settings:
        configs = [await admin.broker_config(each.address) for each in brokers]
        is_made = any(each.get("autoCreateTopicEnable") == "true" for each in configs)
        yield missing_topic(wanted, is_made_by_sends=is_made)
        return
    for topic in settings if wanted is None else [wanted]:
        try:
            routes = await admin.topic_route(topic)
        except TopicNotFound:
            continue  # Deleted meanwhile.
        for finding in of_topic_routes(topic, routes, settings[topic]):
            yield finding
    if wanted is not None:
        readers = await admin.topic_groups(wanted)
        text = f"consumed by {', '.join(readers)}" if readers else "not consumed by any group"
        yield Finding(Severity.FINE, f"topic {wanted}", text)


def of_topic_routes(
    topic: str, routes: Sequence[BrokerRoute], settings: Mapping[str, TopicSettings]
) -> Iterator[Finding]:
    subject = f"topic {topic}"
    if not any(each.permission & Permission.WRITE and each.write_queue_count for each in routes):
        yield Finding(
            Severity.PROBLEM,
            subject,
            "no broker accepts messages for it",
            f"roquet topic change {topic} --permission rw, or roquet broker writes allow BROKER",
        )
    for route in routes:
        own = settings.get(route.broker_name)
        where = f"at {route.broker_name}"
        if own is not None and own.permission & ~route.permission & Permission.WRITE:
            remedy = f"roquet broker writes allow {route.broker_name}"
            text = f"writes are forbidden {where}"
            yield Finding(Severity.WARNING, subject, text, remedy)
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
            )


def missing_topic(topic: str, *, is_made_by_sends: bool) -> Finding:
    remedy = f"roquet topic create {topic}"
    if is_made_by_sends:
        text = "does not exist yet; the first message creates it, with four queues"
        return Finding(Severity.WARNING, f"topic {topic}", text, remedy)
    text = "does not exist, and automatic creation is off (autoCreateTopicEnable)"
    return Finding(Severity.PROBLEM, f"topic {topic}", text, remedy)
