"""A slave becomes the master, in the running process and without losing a connection.

The way back is not here: a master that steps down may have to cut the end of its log, which only
opening a store does. So it restarts in place (`supervisor`).
"""

import logging

from roquet.broker.broker import Broker
from roquet.broker.delays.delays import loaded_delays
from roquet.broker.maintenance import start_leading
from roquet.broker.registration import identity_of

log = logging.getLogger(__name__)


def promote(broker: Broker, epoch: int) -> None:
    """Takes messages from now on; replication from the former master is stopped.

    Raises StateNotSaved, StoreUnavailable, and OSError when the port for slaves cannot be opened;
    then the broker has to restart.
    """
    replication, store = broker.replication, broker.store
    assert replication.secret is not None, "only a broker with epochs is promoted"
    replication.stop_following()
    # Before the first byte of the new epoch.
    replication.secret.epochs.begin(epoch, store.log_end)
    broker.config = broker.config.as_master(replication.secret.epochs.ack_rule)
    replication.lead(broker.config)
    broker.tables.offsets.lead()
    broker.tables.offsets.cut_back(store.max_offset)
    store.lead()
    # Changes that are in the log and were not in the last copies of the tables.
    broker.replication.table_log.apply(are_new=True)
    broker.replication.table_log.lead(epoch)
    # The master's progress counts as far as its log has arrived here.
    broker.waiting.progress.truncate(store.log_end)
    broker.waiting.pending_halves.load()
    broker.waiting.delays = loaded_delays(
        store, broker.clock, broker.config.store.delay_levels_ms, broker.waiting.progress
    )
    start_leading(broker)
    # At once: clients find it with their next route update.
    broker.registrar.identify(identity_of(broker.config))
    log.info("%s is the master of epoch %d now", broker.config.broker_name, epoch)
