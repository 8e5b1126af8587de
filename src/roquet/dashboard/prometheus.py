"""What a Prometheus that scrapes the brokers remembers: charts before the history in memory.

One request to it serves all viewers of a chart for a while. When it fails, charts show what is in
memory and the reason.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from roquet.dashboard.errors import BadInput
from roquet.dashboard.history import Point, SeriesKey

log = logging.getLogger(__name__)

POINT_COUNT_MAX: Final = 400
# Scrapes are a minute apart at most, commonly; a rate needs two of them.
_RATE_S_MIN: Final = 120
_STEP_S_MIN: Final = 15
_TIMEOUT_S: Final = 10.0
# A list of points takes some 20 KB.
_ANSWER_SIZE_MAX: Final = 4 << 20
# Answers are kept as long as a step, within these bounds.
_KEPT_S_MIN: Final = 15.0
_KEPT_S_MAX: Final = 300.0
_KEPT_COUNT_MAX: Final = 200
_PROBLEM_LENGTH_MAX: Final = 300

_IN: Final = "rocketmq_messages_in_total"
_OUT: Final = "rocketmq_messages_out_total"
_LAG: Final = "rocketmq_consumer_lag_messages"
_BEHIND_MS: Final = "rocketmq_consumer_lag_latency"
# By kind and what is measured; {s} selects series, {w} is the window of a rate.
_QUERIES: Final = {
    ("cluster", "put"): "sum(rate(" + _IN + "{{{s}}}[{w}s]))",
    ("cluster", "get"): "sum(rate(" + _OUT + "{{{s}}}[{w}s]))",
    ("cluster", "lag"): "sum(" + _LAG + "{{{s}}})",
    ("topic", "rate"): "sum(rate(" + _IN + "{{{s}}}[{w}s]))",
    ("group", "lag"): "sum(" + _LAG + "{{{s}}})",
    ("group", "behind"): "max(" + _BEHIND_MS + "{{{s}}}) / 1000",
    ("group", "rate"): "sum(rate(" + _OUT + "{{{s}}}[{w}s]))",
}
_NAME_LABELS: Final = {"topic": "topic", "group": "consumer_group"}


@dataclass(frozen=True, slots=True)
class Answer:
    """Points, or why there are none."""

    points: tuple[Point, ...] = ()
    problem: str | None = None


class _Kept(NamedTuple):
    until_s: float
    asking: "asyncio.Task[Answer]"


class _Wanted(NamedTuple):
    key: SeriesKey
    clusters: tuple[str, ...]
    span_s: float


class _Series(msgspec.Struct):
    values: list[tuple[float, str]]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[_Series]


class _Reply(msgspec.Struct, rename="camel"):
    """Of /api/v1/query_range."""

    status: str
    data: _Data | None = None
    error: str | None = None


_decode = msgspec.json.Decoder(_Reply).decode


def check_url(text: str) -> None:
    """Raises BadInput. The address is not repeated: it may have a password."""
    try:
        url = urlsplit(text)
        is_usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise BadInput("--prometheus must be an address such as http://127.0.0.1:9090")


def step_of(span_s: float) -> int:
    """Seconds between two points of a chart."""
    return max(_STEP_S_MIN, -(-int(span_s) // POINT_COUNT_MAX))


def query_of(key: SeriesKey, clusters: Iterable[str], step_s: int) -> str | None:
    """None for what brokers do not export. The own topics of brokers are left out."""
    form = _QUERIES.get((key.kind, key.what))
    if form is None:
        return None
    labels = [("is_system", "=", "false")] if key.kind == "cluster" else []
    if key.kind in _NAME_LABELS:
        labels.append((_NAME_LABELS[key.kind], "=", key.name))
    if names := sorted(set(clusters)):
        labels.append(("cluster", "=~", "|".join(map(_as_pattern, names))))
    selection = ",".join(f'{name}{op}"{_escaped(value)}"' for name, op, value in labels)
    return form.format(s=selection, w=max(_RATE_S_MIN, 2 * step_s))


def _as_pattern(name: str) -> str:
    """A name that RE2 takes as it is."""
    return "".join(each if each.isalnum() or each in "_-" else f"\\{each}" for each in name)


def _escaped(text: str) -> str:
    """Of a label's value in quotation marks."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def points_in(body: bytes) -> Answer:
    """Of the first series: all queries are sums or maxima."""
    try:
        reply = _decode(body)
    except msgspec.DecodeError as error:
        return Answer(problem=f"not an answer of Prometheus: {error}")
    if reply.status != "success" or reply.data is None:
        return Answer(problem=(reply.error or "no reason given")[:_PROBLEM_LENGTH_MAX])
    values = reply.data.result[0].values if reply.data.result else []
    try:
        points = [Point(time_s, float(text)) for time_s, text in values]
    except ValueError:
        return Answer(problem="not an answer of Prometheus: a value is no number")
    # Without a scrape in a window there is NaN, which JSON does not have.
    return Answer(tuple(each for each in points if abs(each.value) < float("inf")))


@final
class Prometheus:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        """Raises BadInput."""
        check_url(url)
        self._url = url.rstrip("/") + "/api/v1/query_range"
        self._session = session
        self._kept: OrderedDict[_Wanted, _Kept] = OrderedDict()

    async def points(
        self, key: SeriesKey, clusters: Iterable[str], span_s: float, now_s: float
    ) -> Answer:
        """The last `span_s`; what another viewer asked for a moment ago is not asked again."""
        wanted = _Wanted(key, tuple(sorted(clusters)), span_s)
        kept = self._kept.get(wanted)
        if kept is None or kept.until_s < now_s:
            keep_s = min(max(_KEPT_S_MIN, step_of(span_s)), _KEPT_S_MAX)
            asking = asyncio.ensure_future(self._asked(wanted, now_s))
            kept = self._kept[wanted] = _Kept(now_s + keep_s, asking)
            self._kept.move_to_end(wanted)
            if len(self._kept) > _KEPT_COUNT_MAX:
                self._kept.popitem(last=False)
        # A viewer that leaves does not cancel it for the others.
        return await asyncio.shield(kept.asking)

    async def close(self) -> None:
        tasks = [each.asking for each in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _asked(self, wanted: _Wanted, now_s: float) -> Answer:
        step_s = step_of(wanted.span_s)
        query = query_of(wanted.key, wanted.clusters, step_s)
        if query is None:
            return Answer()
        # On steps, so that charts of two moments have the same points.
        end_s = int(now_s) // step_s * step_s
        fields: dict[str, Any] = {
            "query": query,
            "start": end_s - int(wanted.span_s),
            "end": end_s,
            "step": step_s,
        }
        try:
            async with (
                asyncio.timeout(_TIMEOUT_S),
                self._session.post(self._url, data=fields, allow_redirects=False) as reply,
            ):
                body = await _bounded(reply.content)
        except TimeoutError:
            return self._failed(f"it did not answer within {_TIMEOUT_S:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return self._failed(f"it cannot be asked: {error}")
        answer = points_in(body)
        if reply.status != 200 and answer.problem is not None:
            return self._failed(f"status {reply.status}: {answer.problem}")
        return answer if answer.problem is None else self._failed(answer.problem)

    def _failed(self, problem: str) -> Answer:
        log.info("Prometheus: %s", problem)
        return Answer(problem=problem[:_PROBLEM_LENGTH_MAX])


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """What is beyond the limit is left out, so the answer cannot be read, which is reported."""
    parts = bytearray()
    async for part in content.iter_chunked(1 << 16):
        parts += part
        if len(parts) > _ANSWER_SIZE_MAX:
            break
    return bytes(parts)
