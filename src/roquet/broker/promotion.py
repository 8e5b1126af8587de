"""A slave becomes the master, in the running process and without losing a connection.

The way back is not made here: a master that steps down may have an end of its log that has to be
cut off, which is what opening a store does. So it begins again (`life`).
"""

import logging

from roquet.broker.broker import Broker
from roquet.broker.delays.delays import loaded_delays
from roquet.broker.maintenance import start_leading
from roquet.broker.registration import identity_of

log = logging.getLogger(__name__)


def promote(broker: Broker, epoch: int) -> None:
    """Takes messages from now on. The caller has stopped it following, or that is done here.

    Raises StateNotSaved, StoreUnavailable, and OSError when slaves cannot be listened to; then the
    broker has to begin again.
    """
    replication, store = broker.replication, broker.store
    assert replication.secret is not None, "without epochs nobody is promoted"
    replication.stop_following()
    # Before the first byte of it.
    replication.secret.epochs.begin(epoch, store.log_end)
    broker.config = broker.config.as_master(replication.secret.epochs.ack_rule)
    replication.lead(broker.config)
    broker.offsets.lead()
    broker.offsets.cut_back(store.max_offset)
    store.lead()
    # What the last copies of the tables did not have, and the log does.
    broker.table_log.apply(are_new=True)
    broker.table_log.lead(epoch)
    # What the master said of its progress counts as far as its log has come here.
    broker.progress.settle(store.log_end)
    broker.pending_halves.load()
    broker.delays = loaded_delays(
        store, broker.clock, broker.config.store.delay_levels_ms, broker.progress
    )
    start_leading(broker)
    # At once: clients find it with their next look at the routes.
    broker.registrar.identify(identity_of(broker.config))
    log.info("%s is the master of epoch %d now", broker.config.broker_name, epoch)
