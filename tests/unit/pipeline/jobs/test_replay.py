"""How a replay is shared out: by what is sent, not by the machine that sends it."""

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadOption
from roquet.pipeline.jobs.replay import (
    MissingTopics,
    ReplayPlan,
    check_targets,
    rate_of_task,
    task_count,
)
from roquet.pipeline.selection import Selection
from roquet.testing.blocking import BlockingCluster
from tests.support.raising import raises


def selection(queue_count: int) -> Selection:
    ends = {QueueRef("orders", "broker-a", number): 5 for number in range(queue_count)}
    return Selection(source={"topic": "orders"}, ends=ends)


@pytest.mark.parametrize(("queues", "tasks"), [(0, 1), (1, 1), (8, 8), (1000, 64)])
def test_tasks_are_as_many_as_queues(queues: int, tasks: int) -> None:
    assert task_count(selection(queues)) == tasks


def test_tasks_together_stay_within_the_rate() -> None:
    assert rate_of_task(1000, 3) == 333
    with pytest.raises(BadOption, match="4 a second"):
        rate_of_task(3, 4)


def test_a_write_is_named_by_what_is_sent_and_where_to() -> None:
    plan = ReplayPlan(selection=selection(2), target={}, topic="again")
    other = ReplayPlan(selection=selection(2), target={}, topic="elsewhere")
    assert plan.id == ReplayPlan(selection=selection(2), target={}, topic="again", rate=5).id
    assert plan.id != other.id
    named = ReplayPlan(selection=selection(2), target={}, topic="again", write_id="mine")
    assert named.id == "mine"


def test_topics_that_do_not_exist_are_all_named() -> None:
    with BlockingCluster() as cluster:
        there = cluster.new_topic()
        plan = ReplayPlan(selection=selection(1), target={"nameServer": cluster.name_server})
        check_targets(plan, [there])
        with raises(MissingTopics, topics=("gone", "lost")):
            check_targets(plan, ["gone", there, "lost"])
