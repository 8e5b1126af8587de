"""Pull consumers: the program asks for messages. Start a cluster first: `roquet up`."""

import sys
import threading

from rich.console import Console

from roquet import Message, Producer, PullConsumer, QueueRef, StartFrom

console = Console()
COUNT = 100


def poll_and_commit(name_server: str) -> None:
    """A share of the topic's queues, like the other members of the group."""
    consumer = PullConsumer(
        name_server, group="auditors", start_from=StartFrom.FIRST, auto_commit=False
    )
    consumer.subscribe("bills")
    count = 0
    with consumer:
        while count < COUNT:
            count += len(consumer.poll())
            consumer.commit()  # Polled messages are not read again by this group.
    console.print(f"polled {count}")


def read_again(name_server: str) -> None:
    """Queues and offsets that the program chooses itself."""
    with PullConsumer(name_server, group="historians", start_from=StartFrom.FIRST) as consumer:
        queue = consumer.queues("bills")[0]
        consumer.assign([queue])
        first = consumer.poll()
        consumer.seek_to_begin(queue)
        again = consumer.poll()
        is_same = first[0].message_id == again[0].message_id
        console.print(f"the first message came {'twice' if is_same else 'once'}")


def work_by_schedule(name_server: str) -> None:
    """A function that is called for each queue, and returns when to call it again."""
    left = threading.Semaphore(0)
    with PullConsumer(name_server, group="archive", prefetch=False) as consumer:

        def work(queue: QueueRef) -> float:
            pulled = consumer.pull(queue, consumer.committed(queue) or 0)
            consumer.commit({queue: pulled.next_offset})
            if pulled.messages:
                left.release(len(pulled.messages))
            return 0.0 if pulled.messages else 1.0

        consumer.subscribe("bills")
        consumer.schedule(work)
        count = sum(left.acquire(timeout=30) for _ in range(COUNT))
    console.print(f"archived {count}")


def main(name_server: str) -> None:
    with Producer(name_server, group="tills") as producer:
        producer.send_many(Message("bills", b"%d" % number) for number in range(COUNT))
    poll_and_commit(name_server)
    read_again(name_server)
    work_by_schedule(name_server)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876")
