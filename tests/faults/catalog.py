"""All rigs, by name."""

from typing import Final

from tests.faults.bad_disks import FAILED_SYNC, FULL_DISK
from tests.faults.bad_peers import DESCRIPTORS, HOSTILE_BYTES, PAGES, STOPPED_READERS
from tests.faults.changes import REBALANCE_STORM, ROLLING_RESTART
from tests.faults.changing_hands import CHANGING_HANDS
from tests.faults.damage import APACHE_DAMAGE, DAMAGE
from tests.faults.elections import ELECTIONS
from tests.faults.floods import BOUNDS
from tests.faults.killing import KILL
from tests.faults.lines import LINES
from tests.faults.links import LINKS
from tests.faults.long_logs import LONG_LOG
from tests.faults.lost_stores import EMPTY_DISKS, WIPED_ETCD
from tests.faults.of_apache import KILL_OF_APACHE, LONG_LOG_OF_APACHE
from tests.faults.policies import POLICIES
from tests.faults.pop_faults import POP_KILL
from tests.faults.pop_power_cuts import POP_POWER_CUT
from tests.faults.power_cuts import POWER_CUT, STORE_POWER_CUT
from tests.faults.progress import PROGRESS
from tests.faults.rig import Rig
from tests.faults.scarce import MAPS, QUEUE_BURST
from tests.faults.simulation.repeatable import SIMULATION
from tests.faults.soak import SOAK
from tests.faults.succeeded import SUCCEEDED
from tests.faults.switches import SWITCHES
from tests.faults.torture import TORTURE
from tests.faults.twins import TWINS
from tests.faults.young_topics import YOUNG_TOPICS

RIGS: Final[dict[str, Rig]] = {
    rig.name: rig
    for rig in (
        KILL,
        POWER_CUT,
        STORE_POWER_CUT,
        POP_KILL,
        POP_POWER_CUT,
        DAMAGE,
        APACHE_DAMAGE,
        FAILED_SYNC,
        FULL_DISK,
        DESCRIPTORS,
        QUEUE_BURST,
        MAPS,
        HOSTILE_BYTES,
        STOPPED_READERS,
        PAGES,
        BOUNDS,
        REBALANCE_STORM,
        ROLLING_RESTART,
        CHANGING_HANDS,
        LINES,
        LINKS,
        SWITCHES,
        ELECTIONS,
        POLICIES,
        EMPTY_DISKS,
        PROGRESS,
        YOUNG_TOPICS,
        SUCCEEDED,
        WIPED_ETCD,
        TWINS,
        TORTURE,
        LONG_LOG,
        SOAK,
        SIMULATION,
    )
}
# Of which nothing is expected.
OF_APACHE: Final[dict[str, Rig]] = {rig.name: rig for rig in (KILL_OF_APACHE, LONG_LOG_OF_APACHE)}
ALL_RIGS: Final = {**RIGS, **OF_APACHE}
