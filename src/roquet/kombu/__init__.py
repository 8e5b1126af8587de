"""A Kombu transport, so that Celery runs on RocketMQ: Roquet's broker, or Apache's from 4.9 on.

    import roquet.kombu

    app = Celery("shop", broker="rocketmq://127.0.0.1:9876//")

Importing the package registers the scheme `rocketmq`. How AMQP's concepts become RocketMQ's:

    queue                  a topic, and a consumer group of the same name that workers share
    transient queue        (auto-delete or exclusive) a reader without a group, in its process only;
                           it starts where the topics end when it is declared or bound
    default exchange       the topic of the queue; for transient queues one shared topic, whose
                           tags are names of queues
    any other exchange     a topic with one queue per broker; the routing key is the tag
    binding                a subscription of the queue's group, or of its reader, to that topic:
                           senders need not know it, so that fanout works across processes
    acknowledgement        the message is finished; the group's offset moves up to the first one
                           that is not
    reject                 with requeue the message is sent again and then finished, without it it
                           becomes a dead letter of the group
    prefetch count         messages that were handed over and are not finished
    visibility timeout     the consume timeout: later the broker redelivers the message
    end of a worker        the group's other members take its queues over, from their offsets
    ETA and countdown      a timer, or delay levels where brokers have no timers, so that the broker
                           keeps the task, not the memory of a worker: a message that waits in a
                           worker would hold back the offset of its queue

A direct exchange whose routing key is its own name is the queue of that name: Celery declares all
queues this way. `mapping` has names and delays, `link` the clients in a thread with an event loop,
`transport` what Kombu calls.
"""

from kombu.transport import TRANSPORT_ALIASES

from roquet.kombu.mapping import exchange_topic, queue_topic

__all__ = ["exchange_topic", "queue_topic"]

TRANSPORT_ALIASES["rocketmq"] = "roquet.kombu.transport:Transport"
