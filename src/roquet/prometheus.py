"""Metrics of clients for prometheus_client, from their `statistics()`; extra `prometheus`.

    registry.register(ClientCollector({"shop": producer, "billing": consumer}))

    rocketmq_producer_messages_total{client,outcome}        stored, failed, unknown, oneway
    rocketmq_producer_stored_bytes_total{client}            bodies, as they were sent
    rocketmq_producer_retries_total{client}                 requests beyond the first of a send
    rocketmq_producer_in_flight{client}                     sends now
    rocketmq_producer_waiting{client}                       sends that wait for room
    rocketmq_consumer_messages_total{client,topic,outcome}  done, failed
    rocketmq_consumer_pulled_total{client,topic}
    rocketmq_consumer_listener_calls_total{client,topic}
    rocketmq_consumer_listener_seconds_total{client,topic}  sum of all calls
    rocketmq_consumer_running_listeners{client}
    rocketmq_consumer_lag{client,topic,broker,queue}        messages after the committed offset

Nothing is counted twice or kept here: each scrape asks the client. It is the only module that
imports prometheus_client.
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Final, final

try:
    from prometheus_client import Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "ClientCollector needs prometheus-client: pip install 'roquet[prometheus]'"
    ) from error

from roquet.client.arguments import bad, check_text
from roquet.client.blocking.consumers import PushConsumer
from roquet.client.blocking.producer import Producer, TransactionProducer
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.receipt import ProducerStatistics
from roquet.client.producer.transaction_producer import AsyncTransactionProducer
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.statistics import ConsumerStatistics

Client = (
    Producer
    | TransactionProducer
    | AsyncProducer
    | AsyncTransactionProducer
    | PushConsumer
    | AsyncPushConsumer
)

Statistics = ProducerStatistics | ConsumerStatistics

_CLIENTS: Final = (
    Producer,
    TransactionProducer,
    AsyncProducer,
    AsyncTransactionProducer,
    PushConsumer,
    AsyncPushConsumer,
)
# A scrape from another thread waits that long for a loop that is busy.
_LOOP_TIMEOUT_S: Final = 5.0


@final
class ClientCollector(Collector):
    """The metrics of producers and push consumers, by a name for each, which is a label.

    One that has asyncio clients is made in their event loop, which is asked when another thread
    scrapes. Raises BadArgument.
    """

    def __init__(self, clients: Mapping[str, Client]) -> None:
        for name, client in clients.items():
            check_text("each name of clients", name)
            if not isinstance(client, _CLIENTS):
                raise bad("each of clients", "a producer or a push consumer", client)
        self._clients = dict(clients)
        self._loop = _running_loop()

    def collect(self) -> Iterator[Metric]:
        """Raises TimeoutError when the clients' event loop does not answer."""
        statistics = self._statistics()
        yield from _of_producers(
            {n: each for n, each in statistics.items() if isinstance(each, ProducerStatistics)}
        )
        yield from _of_consumers(
            {n: each for n, each in statistics.items() if isinstance(each, ConsumerStatistics)}
        )

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering asks no client."""
        return iter(())

    def _statistics(self) -> dict[str, Statistics]:
        loop = self._loop
        if loop is None or not loop.is_running() or loop is _running_loop():
            return self._ask()
        answer: Future[dict[str, Statistics]] = Future()
        loop.call_soon_threadsafe(lambda: answer.set_result(self._ask()))
        return answer.result(_LOOP_TIMEOUT_S)

    def _ask(self) -> dict[str, Statistics]:
        return {name: client.statistics() for name, client in self._clients.items()}


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"rocketmq_{name}", text, labels=["client", *labels])


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"rocketmq_{name}", text, labels=["client", *labels])


def _of_producers(statistics: Mapping[str, ProducerStatistics]) -> Iterator[Metric]:
    messages = _counter("producer_messages", "Messages by how their sends ended", "outcome")
    sizes = _counter("producer_stored_bytes", "Bodies, as they were sent")
    retries = _counter("producer_retries", "Requests beyond the first of a send")
    in_flight = _gauge("producer_in_flight", "Sends in flight")
    waiting = _gauge("producer_waiting", "Sends that wait for room")
    for client, counts in statistics.items():
        messages.add_metric([client, "stored"], counts.stored_count)
        messages.add_metric([client, "failed"], counts.failed_count)
        messages.add_metric([client, "unknown"], counts.unknown_count)
        messages.add_metric([client, "oneway"], counts.oneway_count)
        sizes.add_metric([client], counts.stored_size)
        retries.add_metric([client], counts.retry_count)
        in_flight.add_metric([client], counts.in_flight_count)
        waiting.add_metric([client], counts.waiting_count)
    yield from (messages, sizes, retries, in_flight, waiting)


def _of_consumers(statistics: Mapping[str, ConsumerStatistics]) -> Iterator[Metric]:
    messages = _counter("consumer_messages", "Messages by how listeners ended", "topic", "outcome")
    pulled = _counter("consumer_pulled", "Messages pulled", "topic")
    calls = _counter("consumer_listener_calls", "Calls of the listener", "topic")
    seconds = _counter("consumer_listener_seconds", "Time that they took", "topic")
    running = _gauge("consumer_running_listeners", "Calls that run now")
    lag = _gauge("consumer_lag", "Messages after the offset", "topic", "broker", "queue")
    for client, each in statistics.items():
        for topic, counts in each.topics.items():
            messages.add_metric([client, topic, "done"], counts.done_count)
            messages.add_metric([client, topic, "failed"], counts.failed_count)
            pulled.add_metric([client, topic], counts.pulled_count)
            calls.add_metric([client, topic], counts.call_count)
            seconds.add_metric([client, topic], counts.call_duration_s)
        running.add_metric([client], each.running_count)
        for queue, progress in each.queues.items():
            if progress.lag is not None:
                place = [client, queue.topic, queue.broker_name, str(queue.queue_id)]
                lag.add_metric(place, progress.lag)
    yield from (messages, pulled, calls, seconds, running, lag)
