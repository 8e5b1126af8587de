"""Templates, the words of a language, and the values that every page has.

All text of the cluster is escaped by Jinja2; characters that a browser would obey instead of
showing them are made visible first.
"""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import quote, urlencode

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.arguments import utc
from roquet.clock import SystemClock
from roquet.dashboard.audit import Audit
from roquet.dashboard.pipelines import LakeWatch
from roquet.dashboard.polling import Poller
from roquet.dashboard.prometheus import Prometheus
from roquet.dashboard.snapshot import GroupDetails, Snapshot, TopicSample
from roquet.dashboard.translations import LANGUAGES, translation
from roquet.dashboard.web.guard import SESSION, Guard
from roquet.time_spans import span_text

TEMPLATES: Final = Path(__file__).parents[1] / "templates"
LANGUAGE_COOKIE: Final = "roquet_language"
_LANGUAGE_S_MAX: Final = 365 * 24 * 3600
UNKNOWN: Final = "\u2013"
# Letters and marks that change the direction or the place of others, or cannot be seen.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SHOWN_AS_THEY_ARE: Final = frozenset("\n\t")
_SIZES: Final = ("B", "KB", "MB", "GB", "TB")


# Of charts: what is in memory, and what only Prometheus remembers.
_SPANS: Final = ("10m", "2h", "24h")
_LONG_SPANS: Final = ("7d", "30d")

NAVIGATION: Final = (
    ("/", "Overview"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/messages", "Messages"),
    ("/dead-letters", "Dead letters"),
    ("/waiting", "Waiting"),
    ("/pipelines", "Pipelines"),
    ("/brokers", "Brokers"),
    ("/audit", "Audit"),
)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What pages work with."""

    admin: AsyncAdmin
    poller: Poller
    guard: Guard
    audit: Audit
    lakes: LakeWatch
    # What reaches further back than the history of the poller.
    prometheus: Prometheus | None
    environment: Environment


DASHBOARD: Final = web.AppKey("dashboard", Dashboard)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a page about one topic or group works with.

    It is asked for now, because one looks at it now; the last poll knows its rates.
    """

    name: str
    admin: AsyncAdmin
    snapshot: Snapshot | None

    @property
    def sample(self) -> TopicSample | None:
        return None if self.snapshot is None else self.snapshot.topic_samples.get(self.name)

    @property
    def details(self) -> GroupDetails | None:
        return None if self.snapshot is None else self.snapshot.group_details.get(self.name)


def subject_of(request: web.Request, part: str) -> Subject:
    """`part` is that of the address with its name."""
    dashboard = request.app[DASHBOARD]
    admin = dashboard.admin.partial()
    return Subject(request.match_info[part], admin, dashboard.poller.snapshot)


def new_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count, rate=rate, size=size, ratio=ratio, time=time, span=span, visible=visible
    )
    environment.globals.update(link=link, navigation=NAVIGATION)
    return environment


def page(
    request: web.Request, template: str, *, status: int = 200, is_live: bool = True, **values: Any
) -> web.Response:
    """`is_live` pages are asked for again with every poll, and changed in place."""
    dashboard = request.app[DASHBOARD]
    session = request[SESSION]
    language = language_of(request)
    poller = dashboard.poller
    now = utc(SystemClock().now_ms())
    notice = session.notice
    # A refresh of the page before, still on its way, must not take it: it swaps another part.
    if "HX-Request" not in request.headers:
        session.notice = None
    text = dashboard.environment.get_template(template).render(
        _=partial(translation, language),
        language=language,
        languages=LANGUAGES,
        path=request.path,
        address=request.path_qs,
        csrf=session.csrf,
        user=session.user,
        has_login=dashboard.guard.login is not None,
        may_change=dashboard.guard.allows_changes,
        notice=notice,
        snapshot=poller.snapshot,
        problem=poller.problem,
        poll_age=None if poller.snapshot is None else now - poller.snapshot.taken,
        version=poller.version,
        spans=_SPANS + _LONG_SPANS * (dashboard.prometheus is not None),
        now=now,
        is_live=is_live,
        **values,
    )
    response = web.Response(text=text, status=status, content_type="text/html")
    if language != request.cookies.get(LANGUAGE_COOKIE) and "lang" in request.query:
        response.set_cookie(
            LANGUAGE_COOKIE, language, max_age=_LANGUAGE_S_MAX, httponly=True, samesite="Lax"
        )
    return response


def language_of(request: web.Request) -> str:
    """The one that was chosen, or the first that the browser asks for and that there is."""
    wanted = [request.query.get("lang", ""), request.cookies.get(LANGUAGE_COOKIE, "")]
    accepted = request.headers.get("Accept-Language", "")
    wanted += [each.partition(";")[0].strip()[:2].lower() for each in accepted.split(",")]
    return next((each for each in wanted if each in LANGUAGES), "en")


def link(*parts: str, **query: object) -> str:
    """An address within the dashboard; names are quoted, what is None or blank is left out."""
    path = "/" + "/".join(quote(each, safe="") for each in parts)
    wanted = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(wanted)}" if wanted else path


def count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Of messages a second."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


def size(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError


def span(value: timedelta | float | None) -> str:
    if value is None:
        return UNKNOWN
    return span_text(value if isinstance(value, timedelta) else timedelta(seconds=value))


def time(value: datetime | None) -> str:
    """A script shows it in the zone of the reader."""
    if value is None:
        return UNKNOWN
    moment = value.astimezone(UTC)
    shown = moment.strftime("%Y-%m-%d %H:%M:%S")
    exact = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}">{} UTC</time>').format(exact, shown)


def visible(text: str | None) -> str:
    """With the numbers of characters that cannot be seen, or that move others."""
    return UNKNOWN if text is None else "".join(map(_visible, text))


def _visible(letter: str) -> str:
    if letter in _SHOWN_AS_THEY_ARE or unicodedata.category(letter) not in _HIDDEN:
        return letter
    return f"⟨{ord(letter):04X}⟩"


@final
class Listing:
    """The rows of a table that one page of it shows, by filter, order and page number."""

    def __init__(
        self,
        query: Mapping[str, str],
        rows: list[Any],
        columns: Mapping[str, Callable[[Any], Any]],
        default: str,
    ) -> None:
        """`columns` have what rows are sorted by; names ascend, numbers descend at first."""
        self.filter = query.get("filter", "")[:FILTER_LENGTH_MAX]
        sort = query.get("sort", default)
        self.sort = sort if sort.removeprefix("-") in columns else default
        found = [row for row in rows if self.filter.lower() in row.name.lower()]
        column = self.sort.removeprefix("-")
        known = [row for row in found if columns[column](row) is not None]
        unknown = [row for row in found if columns[column](row) is None]
        known.sort(key=lambda row: row.name)
        known.sort(key=columns[column], reverse=self.sort.startswith("-"))
        self.total = len(found)
        self.page_count = max(1, -(-self.total // ROWS_MAX))
        self.page = min(_whole(query.get("page", ""), 1), self.page_count)
        self.rows = (known + unknown)[(self.page - 1) * ROWS_MAX :][:ROWS_MAX]

    def order_by(self, column: str, *, is_number: bool = True) -> str:
        """The value of `sort` that a click on a heading asks for."""
        first, second = (f"-{column}", column) if is_number else (column, f"-{column}")
        return second if self.sort == first else first


ROWS_MAX: Final = 100
FILTER_LENGTH_MAX: Final = 200


def _whole(text: str, smallest: int) -> int:
    return (
        max(smallest, int(text))
        if text.isascii() and text.isdigit() and len(text) < 9
        else smallest
    )
