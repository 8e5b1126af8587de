"""What a broker loads from its disk when it starts, saves there when it ends, and logs of it."""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from roquet.broker.broker import Broker
from roquet.broker.delays.timers import apache_progress
from roquet.broker.messages.acks import AckQueue
from roquet.broker.replication.epochs import SharedSecret
from roquet.broker.replication.table_log import TableLog
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.durable_state import DurableState
from roquet.broker.tables.saving import SavedTable
from roquet.clock import Clock
from roquet.disk import Disk
from roquet.net.limits import ConnectionBudget
from roquet.net.tls.contexts import ServerTls
from roquet.process_limits import is_near, kept_limit
from roquet.protocol.bodies.offsets import TimerProgress
from roquet.state_file import BadStateFile, StateFile
from roquet.store.log_scan import NO_END
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)


class PortContext(NamedTuple):
    """What outlives a broker that restarts in place: servers beside it use it, too."""

    tls: ServerTls
    # All connections, of all ports.
    connection_budget: ConnectionBudget


def port_context_of(config: BrokerConfig, clock: Clock) -> PortContext:
    """Raises TlsNotUsable."""
    return PortContext(ServerTls(config.tls, clock), ConnectionBudget(clock, config.server_limits))


class StartState(NamedTuple):
    """What a broker starts with, besides its settings."""

    secret: SharedSecret | None = None
    cut_end: int = NO_END
    ports: PortContext | None = None


WITHOUT_REPLICAS: Final = StartState()


class LoadedTable(SavedTable, Protocol):
    def load(self, data: bytes) -> list[str]:
        """Returns what was left out. Raises BadBody."""


def is_loaded(file: StateFile, name: str, table: LoadedTable) -> bool:
    """A table that cannot be read is no reason not to serve the log. Raises StateNotSaved."""
    try:
        left_out = file.load(table.load) or ()
    except BadStateFile as error:
        log.error("starting without %s, kept as %s.damaged: %s", name, name, error)  # noqa: TRY400  No traceback is needed.
        file.set_aside()
        return False
    for each in left_out:
        log.warning("%s: left out %r, which cannot be a name", name, each)
    return True


def load_table_log(
    config: BrokerConfig, table_log: TableLog, start: StartState, lost: Collection[str]
) -> None:
    """Records of topics and groups in the log that their files lack are in the tables now.

    `lost` are files that could not be read.
    """
    if start.cut_end != NO_END:
        table_log.apply_again()
    elif start.secret is not None or lost:
        table_log.apply(are_new=False)
    if "topics.json" in lost:
        for topic in table_log.restore_topics():
            log.warning("made topic %s again, after its queues", topic)
    # Last: what is made again here is not refused because the disk is full.
    if start.secret is not None and not config.is_slave:
        table_log.lead(start.secret.epochs.history.latest)


def adopt_apache_timers(state: DurableState[TimerProgress], disk: Disk, path: Path) -> None:
    """What an Apache broker of 5.x delivered before us; what it did not record comes twice."""
    if state.known:
        return
    try:
        progress = StateFile(disk, path).load(apache_progress)
    except BadStateFile as error:
        log.warning("timers may come again: %s", error)
    else:
        state.adopt([] if progress is None else [progress])


def opened_store(
    config: BrokerConfig, clock: Clock, disk: Disk, acks: AckQueue, start: StartState
) -> MessageStore:
    """With its epoch started, if it has one. Raises StoreError and StateFileError."""
    secret, cut_end = start.secret, start.cut_end
    store = MessageStore.open(config.store, clock, disk, acks, cut_end=cut_end)
    if secret is not None:
        if cut_end != NO_END:
            secret.epochs.cut(store.log_end)
        if not config.is_slave:
            # Always a new one: slaves may have what was written last, and this store may not.
            secret.epochs.begin(secret.epochs.seen + 1, store.log_end)
    report = store.recovery
    assert report is not None
    log.info(
        "%s %s: %d records from %d to %d looked at",
        "opened" if report.was_clean else "recovered after a crash",
        config.store.root,
        report.record_count,
        report.scanned_from,
        report.log_end,
    )
    if report.lost_notes:
        log.warning(
            "which records were written with checksums is not known any more: %s", report.lost_notes
        )
    if report.cut_size:
        log.warning(
            "cut off %d bytes past the end of the log at %d: %s; %s",
            report.cut_size,
            report.log_end,
            report.cut_reason,
            f"they are kept in {report.cut_path}"
            if report.cut_path
            else "the disk has no space to keep them",
        )
    for damage in report.damages:
        log.error("damaged part of the log: %s", damage)
    _warn_of_many_files(store.queue_file_count)
    store.start()
    return store


def _warn_of_many_files(file_count: int) -> None:
    """Before messages are refused because all of them are written to at once."""
    limit = kept_limit()
    if is_near(file_count, limit):
        log.warning(
            "the queues have %d files, and %d can be open at once: %s; messages are refused for "
            "queues that find no file, so raise it before more are in use",
            *(file_count, limit.count, limit.setting),
        )


def close_store(broker: Broker) -> None:
    """With how far delays, transactions and popped messages have come."""
    store, progress = broker.store, broker.waiting.progress
    try:
        store.close()
    finally:
        if broker.config.is_slave:
            # What a slave knows of these it has from its master; some of it may have waited.
            progress.confirm(store.synced_end)
        else:
            # Now everything is on disk, or what the store could save of it. Which replicas have it
            # does not matter: if it is cut off one day, what is saved here goes with it.
            progress.confirm(store.synced_end)
            broker.waiting.delays.propose()
            progress.confirm(store.synced_end)
            broker.waiting.pending_halves.commit_progress(store.synced_end)
            broker.waiting.pops.commit_progress(store.synced_end)
