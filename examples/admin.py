"""Administration of a cluster. Start one first: `roquet up`."""

import sys

from rich.console import Console

from roquet import Admin, Message, Producer, PullConsumer, StartFrom, TopicSettings

console = Console()


def main(name_server: str) -> None:
    with Admin(name_server) as admin:
        for broker in admin.brokers():
            console.print(f"{broker.broker_name} {broker.version} at {broker.address}")
        admin.create_topic("ledger", TopicSettings(read_queue_count=1, write_queue_count=1))
        with Producer(name_server, group="clerks") as producer:
            for number in range(5):
                producer.send(Message("ledger", b"%d" % number, keys=(f"line-{number}",)))
        console.print(f"{admin.topic_statistics('ledger').message_count} messages")
        # The newest is the last one: an earlier run may have left another.
        found = admin.messages_by_key("ledger", "line-3")[-1]
        console.print(f"line-3 is at offset {found.queue_offset} of {found.queue}")

        consumer = PullConsumer(name_server, group="auditors", start_from=StartFrom.FIRST)
        consumer.assign([found.queue])
        with consumer:
            consumer.poll()
            consumer.commit({found.queue: 3})
        console.print(f"auditors are {admin.progress('auditors', topic='ledger').lag} behind")

        # A plan shows what would happen; applying it is a second step.
        plan = admin.plan_reset("auditors", "ledger", StartFrom.FIRST)
        console.print(f"a reset would repeat {plan.repeated_count} messages")
        admin.apply_reset(plan)
        console.print(f"auditors are {admin.progress('auditors', topic='ledger').lag} behind")

        admin.delete_group("auditors")
        admin.delete_topic("ledger")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876")
