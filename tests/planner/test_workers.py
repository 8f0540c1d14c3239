"""How much of the time that is left each node problem may take."""

import math
import threading
import time
from fractions import Fraction

import pytest
from attrs import frozen

from cpsat_pim.planner.nodes.workers import Workers


@frozen
class Request:
    """The part of a request that counts here."""

    time_limit: float


@frozen
class Task:
    """Tells its time limit at once."""

    key: str
    request: Request

    def run(self, stop, report):
        """Return what the limit of the task is."""
        return self.request.time_limit


def limits(tasks, left, own=20.0):
    """The time limits that tasks get one after another, if each ends at once."""
    given = {}
    some = [Task(str(number), Request(own)) for number in range(tasks)]
    Workers(1, threading.Event()).run(some, given.__setitem__, time.monotonic() + left)
    return list(given.values())


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_tasks_share_time_that_is_short(tasks):
    """Of 6 s, the first of n tasks gets an n-th or what leaves 2 s to each other one, the last gets all."""
    shares = [max(Fraction(6, waiting), 6 - 2 * (waiting - 1)) for waiting in range(tasks, 0, -1)]
    for got, share in zip(limits(tasks, 6.0), shares, strict=True):
        assert share - 1 < got <= share


def test_tasks_leave_each_other_a_little_time():
    """Of 8 s, the first of three tasks leaves 2 s to each other one; all end at once here, so nothing is used."""
    for got, share in zip(limits(3, 8.0), [4, 6, 8], strict=True):
        assert share - 1 < got <= share


def test_task_takes_a_few_equal_shares_at_most():
    """Of 100 s for 20 tasks, the first gets twice 5 s, not what leaves 2 s to each other one, 62 s."""
    assert 9 < limits(20, 100.0)[0] <= 10


def test_task_takes_no_more_than_its_own_limit():
    """There is enough time for all."""
    assert limits(3, math.inf) == [20.0] * 3
    assert limits(3, 1000.0, own=5.0) == [5.0] * 3


def test_no_short_task_begins_once_the_search_is_over():
    """Of five tasks the third ends the search."""
    done = {}
    tasks = [Task(str(number), Request(20.0)) for number in range(5)]
    Workers(1, threading.Event()).run_short(tasks, done.__setitem__, lambda: len(done) == 3)
    assert list(done) == ["0", "1", "2"]
