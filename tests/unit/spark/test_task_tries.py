"""Tries of tasks, as Spark numbers them."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from lakelog.spark.runtime.worker_end import Try, each_ran_once


def session(speculation: str | None = None) -> Mock:
    conf = {} if speculation is None else {"spark.speculation": speculation}
    spark = Mock()
    spark.sparkContext.getConf.return_value = conf
    return spark


@pytest.mark.parametrize(
    ("tries", "expected"),
    [
        pytest.param([], True, id="no task"),
        pytest.param([Try(0, 7, 0), Try(1, 8, 0), Try(2, 9, 0)], True, id="one after the other"),
        pytest.param([Try(2, 9, 0), Try(0, 7, 0), Try(1, 8, 0)], True, id="answers in any order"),
        pytest.param([Try(0, 7, 0), Try(1, 10, 1), Try(2, 9, 0)], False, id="a task was tried again"),
        pytest.param([Try(0, 7, 0), Try(1, 10, 0), Try(2, 9, 0)], False, id="the stage was tried again"),
        pytest.param([Try(0, 10, 0), Try(1, 8, 0), Try(2, 9, 0)], False, id="its first task was tried again"),
    ],
)
def test_numbers_that_follow_one_another_are_those_of_tasks_that_ran_once(tries, expected) -> None:
    assert each_ran_once(session(), tries) is expected


def test_a_second_copy_of_a_slow_task_has_no_number_among_them() -> None:
    tries = [Try(0, 7, 0), Try(1, 8, 0)]
    assert each_ran_once(session("false"), tries)
    assert not each_ran_once(session("true"), tries)
