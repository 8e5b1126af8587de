"""Which slaves are waited for, and what readers are shown meanwhile."""

from roquet.broker.replication.in_sync import ANY_STORE, Replica
from roquet.broker.replication.replica_progress import EVERYTHING, ReplicaProgress, Slave

LAG_MAX = 1000


class Log:
    def __init__(self) -> None:
        self.end = 5000
        self.replicas = ReplicaProgress(LAG_MAX, lambda: self.end)
        self.change_count = 0
        self.replicas.on_change = self.changed

    def changed(self) -> None:
        self.change_count += 1

    def slave(self, confirmed_end: int) -> Slave:
        slave = Slave("somewhere:1", confirmed_end, confirmed_end)
        self.replicas.join(slave)
        return slave


def test_without_a_slave_no_send_waits_and_everything_is_shown() -> None:
    replicas = Log().replicas
    assert not replicas.is_awaited(5000)
    assert replicas.shown_end == EVERYTHING


def test_a_slave_that_is_near_is_waited_for() -> None:
    log = Log()
    log.slave(4001)
    assert log.replicas.is_awaited(5000)
    assert not log.replicas.is_awaited(5001)


def test_the_furthest_slave_counts() -> None:
    log = Log()
    near, far = log.slave(4800), log.slave(10)
    log.replicas.confirm(far, 4900)
    log.replicas.confirm(near, 4850)
    assert log.replicas.confirmed_end == 4900


def test_what_was_confirmed_stays_so_when_the_slave_is_gone() -> None:
    log = Log()
    log.replicas.leave(log.slave(4900))
    assert log.replicas.confirmed_end == 4900
    assert not log.replicas.is_awaited(5000)


def test_what_readers_have_seen_does_not_vanish_when_a_slave_comes() -> None:
    log = Log()
    slave = log.slave(4500)
    assert log.replicas.shown_end == 5000
    log.end = 5300
    assert log.replicas.shown_end == 5000
    log.replicas.confirm(slave, 5200)
    assert log.replicas.shown_end == 5200


def test_what_was_given_up_is_shown() -> None:
    log = Log()
    log.slave(5000)
    log.end = 5300
    log.replicas.give_up(5100)
    assert log.replicas.shown_end == 5100


def test_a_slave_that_comes_near_again_hides_nothing() -> None:
    log = Log()
    slave = log.slave(4900)
    log.end = 6000
    assert log.replicas.shown_end == EVERYTHING
    log.replicas.confirm(slave, 5500)
    assert log.replicas.shown_end == 6000


def test_every_change_is_reported() -> None:
    log = Log()
    slave = log.slave(4900)
    log.replicas.confirm(slave, 5000)
    log.replicas.leave(slave)
    assert log.change_count == 3


def stores_of(*replica_ids: int) -> frozenset[Replica]:
    return frozenset(Replica(each, f"store of {each}") for each in replica_ids)


class ElectedMaster(Log):
    """A master whose place others can take."""

    def __init__(self, members: set[int], slaves_needed: int = 1) -> None:
        super().__init__()
        self.now_s = 100.0
        self.replicas = ReplicaProgress(
            LAG_MAX, lambda: self.end, slaves_needed=slaves_needed, now_s=lambda: self.now_s
        )
        self.replicas.lead(stores_of(*members), lambda: True)

    def replica(self, replica_id: int, confirmed_end: int) -> Slave:
        (replica,) = stores_of(replica_id)
        slave = Slave(f"somewhere:{replica_id}", confirmed_end, confirmed_end, replica)
        self.replicas.join(slave)
        return slave


def test_only_in_sync_slaves_confirm() -> None:
    master = ElectedMaster({1, 2})
    master.replica(3, 5000)
    assert master.replicas.confirmed_end == 0
    assert not master.replicas.is_awaited(5000)
    master.replicas.use_members(stores_of(1, 2, 3))
    assert master.replicas.confirmed_end == 5000


def test_as_many_as_are_needed_confirm() -> None:
    master = ElectedMaster({1, 2, 3}, slaves_needed=2)
    master.replica(2, 4900)
    assert master.replicas.confirmed_end == 0
    master.replica(3, 4800)
    assert master.replicas.confirmed_end == 4800


def test_a_slave_with_two_links_counts_once() -> None:
    master = ElectedMaster({1, 2, 3}, slaves_needed=2)
    master.replica(2, 4900)
    master.replica(2, 4950)
    assert master.replicas.confirmed_end == 0
    assert not master.replicas.is_awaited(5000)


def test_what_a_successor_may_lack_is_not_shown() -> None:
    master = ElectedMaster({1, 2})
    master.end = 5300
    master.replicas.give_up(5300)
    assert master.replicas.shown_end == 5000
    master.replica(2, 5200)
    assert master.replicas.shown_end == 5200


def test_a_master_without_in_sync_slaves_shows_everything() -> None:
    master = ElectedMaster({1})
    master.end = 5300
    assert master.replicas.shown_end == EVERYTHING
    master.replicas.use_members(stores_of(1, 2))
    assert master.replicas.shown_end == 5300


def test_without_copies_all_that_is_stored_is_confirmed() -> None:
    master = ElectedMaster({1, 2}, slaves_needed=0)
    master.end = 5300
    assert master.replicas.confirmed_end == master.replicas.acknowledged_end == 5300
    assert master.replicas.is_awaited(5300)
    assert master.replicas.shown_end == EVERYTHING


def test_all_that_was_there_before_may_have_been_acknowledged() -> None:
    assert ElectedMaster({1, 2}).replicas.acknowledged_end == 5000


def test_a_slave_had_everything_when_its_mark_was_made() -> None:
    master = ElectedMaster({1, 2})
    slave = master.replica(2, 4900)
    master.now_s, master.end = 103.0, 5300
    master.replicas.confirm(slave, 5000)
    assert slave.caught_up_at_s == 100.0
    assert slave.lag_s(master.end, master.now_s) == 3.0
    master.replicas.confirm(slave, 5300)
    assert slave.caught_up_at_s == 103.0
    assert slave.lag_s(master.end, master.now_s) == 0.0


def test_members_are_followed_though_they_are_away() -> None:
    master = ElectedMaster({1, 2, 3})
    master.replicas.leave(master.replica(2, 4900))
    known = {each.replica.replica_id: each for each in master.replicas.replica_states()}
    assert (known[2].confirmed_end, known[2].is_linked) == (4900, False)
    assert (known[3].confirmed_end, known[3].caught_up_at_s) == (5000, 100.0)


def test_a_slave_that_returns_with_an_empty_disk_confirms_nothing() -> None:
    """It has the number of a member, and is another store."""
    master = ElectedMaster({1, 2})
    master.replicas.join(Slave("somewhere:2", 5000, 5000, Replica(2, "another store")))
    assert master.replicas.confirmed_end == 0
    assert not master.replicas.is_awaited(5000)


def test_members_of_before_stores_were_recorded_are_known_by_their_number() -> None:
    master = ElectedMaster({1})
    master.replicas.use_members(frozenset({Replica(1, "store of 1"), Replica(2, ANY_STORE)}))
    master.replica(2, 4900)
    assert master.replicas.confirmed_end == 4900


def test_a_second_store_of_one_number_is_seen() -> None:
    master = ElectedMaster({1, 2})
    slave = master.replica(2, 4900)
    assert master.replicas.other_store_of(Replica(2, "another store")) is slave
    assert master.replicas.other_store_of(Replica(2, "store of 2")) is None
    assert master.replicas.other_store_of(Replica(3, "another store")) is None


def test_stores_that_were_replaced_are_forgotten() -> None:
    master = ElectedMaster({1})
    for number in range(3):
        slave = Slave("somewhere:2", 0, 0, Replica(2, f"store {number}"))
        master.replicas.join(slave)
        master.replicas.leave(slave)
    states = [each.replica for each in master.replicas.replica_states()]
    assert [each.store for each in states if each.replica_id == 2] == ["store 2"]


def test_slaves_that_do_not_know_for_which_log_a_table_is_true_have_the_shortest_of_theirs() -> (
    None
):
    log = Log()
    assert log.replicas.apache_end == EVERYTHING
    near = log.slave(4800)
    log.slave(4900)
    log.replicas.join(Slave("elsewhere:1", 10, 10, Replica(2, "store of 2")))
    assert log.replicas.apache_end == 4800
    log.replicas.leave(near)
    assert log.replicas.apache_end == 4900


def test_too_few_slaves_are_a_shortage() -> None:
    log = Log()
    assert log.replicas.shortage() == "confirmations needed from slaves: 1, slaves linked: 0"
    slave = log.slave(4000)
    assert log.replicas.shortage() == "slaves are 1000 bytes behind (haSlaveFallbehindMax) or more"
    log.replicas.confirm(slave, 4001)
    assert log.replicas.shortage() is None
    log.replicas.leave(slave)
    log.replicas.require(0)
    assert log.replicas.shortage() is None


def test_a_slave_that_is_not_in_sync_does_not_end_a_shortage() -> None:
    master = ElectedMaster({1, 2})
    master.replica(3, 5000)
    expected = "confirmations needed from slaves: 1, slaves linked and in sync: 0"
    assert master.replicas.shortage() == expected
    master.replica(2, 5000)
    assert master.replicas.shortage() is None
