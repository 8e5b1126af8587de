"""Which slaves are waited for, and what readers are shown meanwhile."""

from roquet.broker.replication.copies import EVERYTHING, Copies, Slave

LAG_MAX = 1000


class Log:
    def __init__(self) -> None:
        self.end = 5000
        self.copies = Copies(LAG_MAX, lambda: self.end)
        self.change_count = 0
        self.copies.on_change = self.changed

    def changed(self) -> None:
        self.change_count += 1

    def slave(self, confirmed_end: int) -> Slave:
        slave = Slave("somewhere:1", confirmed_end, confirmed_end)
        self.copies.join(slave)
        return slave


def test_without_a_slave_nobody_waits_and_everything_is_shown() -> None:
    copies = Log().copies
    assert not copies.is_awaited(5000)
    assert copies.shown_end == EVERYTHING


def test_a_slave_that_is_near_is_waited_for() -> None:
    log = Log()
    log.slave(4001)
    assert log.copies.is_awaited(5000)
    assert not log.copies.is_awaited(5001)


def test_the_furthest_slave_counts() -> None:
    log = Log()
    near, far = log.slave(4800), log.slave(10)
    log.copies.confirm(far, 4900)
    log.copies.confirm(near, 4850)
    assert log.copies.confirmed_end == 4900


def test_what_was_confirmed_stays_so_when_the_slave_is_gone() -> None:
    log = Log()
    log.copies.leave(log.slave(4900))
    assert log.copies.confirmed_end == 4900
    assert not log.copies.is_awaited(5000)


def test_what_readers_have_seen_does_not_vanish_when_a_slave_comes() -> None:
    log = Log()
    slave = log.slave(4500)
    assert log.copies.shown_end == 5000
    log.end = 5300
    assert log.copies.shown_end == 5000
    log.copies.confirm(slave, 5200)
    assert log.copies.shown_end == 5200


def test_what_was_given_up_is_shown() -> None:
    log = Log()
    log.slave(5000)
    log.end = 5300
    log.copies.give_up(5100)
    assert log.copies.shown_end == 5100


def test_a_slave_that_comes_near_again_hides_nothing() -> None:
    log = Log()
    slave = log.slave(4900)
    log.end = 6000
    assert log.copies.shown_end == EVERYTHING
    log.copies.confirm(slave, 5500)
    assert log.copies.shown_end == 6000


def test_every_change_is_told() -> None:
    log = Log()
    slave = log.slave(4900)
    log.copies.confirm(slave, 5000)
    log.copies.leave(slave)
    assert log.change_count == 3
