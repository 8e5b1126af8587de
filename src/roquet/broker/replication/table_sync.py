"""What a slave fetches besides the log: topics, groups, offsets, and the progress of delays.

A slave asks its master for all of them as soon as there is a link, and then every ten seconds, as
Apache's do, in this order; a table that did not arrive is requested again, sooner. Offsets that
consumers committed at the slave while the master was away are sent to the master. What becomes of
topics and groups that the log has brought is explained in `table_log`.

A master of ours sends the version of its offsets, and is asked once a second whether there is
another one: a slave that takes over should know what was committed last. The same goes for the
progress of messages that wait.

That progress arrives ahead of the log, or after it, and is true only for a log that has what the
master stored meanwhile (`tables/durable_state`). A master of ours sends how much that is. One of
Apache does not: it is asked afterwards where its log ends. What waits for the log of one link is
dropped with the next link, and requested again: another master may have another log.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar, final

import msgspec

from roquet.access.accounts import OwnAccount, request_of
from roquet.broker.replication.errors import MasterRefused
from roquet.broker.tables.durable_state import ProgressTables
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable, OwnOffset, transaction_progress_of
from roquet.broker.tables.request_modes import RequestModes
from roquet.broker.tables.topics import TopicTable
from roquet.errors import RoquetError
from roquet.net.peers import Peers
from roquet.protocol.bodies.body import Body, read_body
from roquet.protocol.bodies.groups import GroupConfigTable
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.bodies.offsets import (
    AllProgress,
    ConsumerOffsetTable,
    PopProgress,
    TransactionProgress,
)
from roquet.protocol.bodies.pop import RequestModeTable
from roquet.protocol.bodies.topics import TopicConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadBody
from roquet.protocol.fields import Header, NoFields, header_reader
from roquet.protocol.headers.brokers import (
    AllOffsetsHeader,
    AllOffsetsReplyHeader,
    AllProgressReplyHeader,
)
from roquet.protocol.headers.groups import UpdateConsumerOffsetHeader
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

RETRY_PAUSE_S: Final = 3.0
PAUSE_S_MIN: Final = 1.0
PERIOD_S: Final = 10.0
OFFSETS_PERIOD_S: Final = 1.0
# At most this share of the time goes into asking for offsets between two full syncs.
OFFSETS_TIME_SHARE: Final = 0.02
_TIMEOUT_S: Final = 3.0
_NAME_SIZE_SHOWN: Final = 100
_NO_HEADER: Final = NoFields()
_LOG_END: Final = "commitLogMaxOffset"

_read_version = header_reader(AllOffsetsReplyHeader)
_read_progress_reply = header_reader(AllProgressReplyHeader)

B = TypeVar("B", bound=Body)


class SlaveTables(msgspec.Struct):
    """Those of the slave."""

    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    request_modes: RequestModes
    progress: ProgressTables


@final
class TableSync:
    """Belongs to the event loop. `master_address` is where clients find the master; `is_followed`
    returns whether the log here is that of a master of some epoch.
    """

    def __init__(
        self,
        peers: Peers,
        account: OwnAccount | None,
        tables: SlaveTables,
        master_address: Callable[[], str | None],
        is_followed: Callable[[int], bool],
        now_s: Callable[[], float],
    ) -> None:
        self._peers = peers
        self._account = account
        self._tables = tables
        self._master_address = master_address
        self._is_followed = is_followed
        self._failures = ThrottledLog(log, now_s)
        # Of the offsets that were fetched last; None if they were those of a master of Apache.
        self._offsets_version: str | None = None
        # The same for the progress of messages that wait; empty if some of it was not taken.
        self._progress_version: str | None = None
        # That of the last table of offsets, if there was one.
        self._transactions: TransactionProgress | None = None
        self._pops: PopProgress | None = None
        self._link_count = 0

    def link_made(self) -> None:
        """The log arrives by another link from now on, perhaps from another master."""
        self._link_count += 1
        self._tables.progress.withdraw()
        # To be requested soon: without any, a new slave that takes over delivers everything again.
        self._progress_version = ""

    async def sync(self) -> bool:
        """Fetches all tables once; whether they arrived. Failures are logged."""
        address = self._master_address()
        if address is None:
            return False  # The link logs it.
        try:
            await self._fetch_from(address)
        except RoquetError as error:
            # The text is the key: another reason is logged at once.
            text = f"not all tables of master {address} were fetched, retrying: {error}"
            self._failures.warning(text, text)
            return False
        self._failures.clear_all()
        return True

    async def sync_offsets(self) -> None:
        """Fetches offsets if they have changed, and the master supports that request."""
        address = self._master_address()
        if address is None or self._offsets_version is None:
            return
        try:
            await self._fetch_offsets(address, self._offsets_version)
        except RoquetError:
            # The next full sync logs it, if it still fails then.
            self._offsets_version = None

    async def sync_progress(self) -> None:
        """The same for the progress of messages that wait."""
        address = self._master_address()
        if address is None or self._progress_version is None:
            return
        try:
            await self._fetch_progress(address, self._progress_version)
        except RoquetError:
            self._progress_version = None

    async def _fetch_from(self, address: str) -> None:
        """Raises NetError, MasterRefused and BadBody."""
        tables = self._tables
        topics = await self._table(address, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable)
        _log_left_out("topics", tables.topics.follow(topics))
        refusals = await self._fetch_offsets(address)
        await self._fetch_progress(address)
        groups = await self._table(
            address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GroupConfigTable
        )
        _log_left_out("groups", tables.groups.follow(groups))
        await self._fetch_request_modes(address)
        if refusals:
            raise refusals[0]

    async def _fetch_request_modes(self, address: str) -> None:
        code = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
        try:
            modes = await self._table(address, code, RequestModeTable)
        except MasterRefused as refused:
            # 4.9 has none.
            if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
        else:
            self._tables.request_modes.follow(modes)

    async def _fetch_offsets(self, address: str, known_version: str = "") -> list[MasterRefused]:
        """Returns what the master refused of the offsets that it did not have."""
        header = AllOffsetsHeader(known_version=known_version)
        reply = await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET, header)
        version = _read_version(reply.fields).version
        if version == known_version:
            return []
        offsets = read_body(ConsumerOffsetTable, reply.body)
        self._transactions = transaction_progress_of(offsets)
        self._pops = self._tables.offsets.pop_progress_of(offsets)
        refusals = await self._send_own_offsets(address, self._tables.offsets.follow(offsets))
        self._offsets_version = version
        return refusals

    async def _fetch_progress(self, address: str, known_version: str = "") -> None:
        link_count = self._link_count
        header = AllOffsetsHeader(known_version=known_version)
        reply = await self._ask(address, RequestCode.GET_ALL_DELAY_OFFSET, header)
        answered = _read_progress_reply(reply.fields)
        if answered.version is not None and answered.version == known_version:
            return
        progress = read_body(AllProgress, reply.body)
        log_end = 0
        if answered.version is not None:
            # Of messages that were popped before that progress, only the offsets know now.
            await self._fetch_offsets(address, self._offsets_version or "")
        else:
            progress.transactions = self._transactions
            progress.pops = self._pops
            log_end = await self._log_end(address)
        # Another master than the one whose log this is may have answered, and while it was asked
        # the log may have become that of another one.
        is_of_log = link_count == self._link_count and (
            answered.version is None or self._is_followed(answered.epoch or 0)
        )
        is_taken = is_of_log and self._tables.progress.follow(progress, log_end)
        self._progress_version = "" if answered.version and not is_taken else answered.version

    async def _log_end(self, address: str) -> int:
        """Raises NetError, MasterRefused and BadBody."""
        table = (await self._table(address, RequestCode.GET_BROKER_RUNTIME_INFO, KvTable)).table
        text = table.get(_LOG_END, "")
        if not (text.isascii() and text.isdigit()):
            raise BadBody("KvTable", f"{_LOG_END} cannot be {text[:_NAME_SIZE_SHOWN]!r}")
        return int(text)

    async def _table(self, address: str, code: RequestCode, kind: type[B]) -> B:
        return read_body(kind, (await self._ask(address, code)).body)

    async def _send_own_offsets(
        self, address: str, offsets: Iterable[OwnOffset]
    ) -> list[MasterRefused]:
        """Returns what the master refused; it is sent again with the next sync.

        A master of 5.x refuses offsets of a group that it does not know, and takes the others.
        """
        refusals = []
        for own in offsets:
            try:
                await self._send_own_offset(address, own)
            except MasterRefused as error:
                refusals.append(error)
        return refusals

    async def _send_own_offset(self, address: str, own: OwnOffset) -> None:
        header = UpdateConsumerOffsetHeader(
            consumer_group=own.group,
            topic=own.topic,
            queue_id=own.queue_id,
            commit_offset=own.offset,
        )
        await self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        self._tables.offsets.note_sent(own)

    async def _ask(self, address: str, code: RequestCode, header: Header = _NO_HEADER) -> Command:
        request = request_of(self._account, code, header)
        reply = await self._peers.call(address, request, _TIMEOUT_S)
        if reply.code != ResponseCode.SUCCESS:
            raise MasterRefused(code, reply.code, reply.remark)
        return reply


def _log_left_out(what: str, names: Iterable[str]) -> None:
    for name in names:
        log.warning(
            "skipped %s of the master with an invalid name: %r", what, name[:_NAME_SIZE_SHOWN]
        )
