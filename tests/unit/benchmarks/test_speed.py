"""Each question of the probe is in one step of a run, and no second is counted twice."""

from __future__ import annotations

from typing import Any

from benchmarks.speed import STEPS, covered, questions_table, steps_table, unasked_table
from patchgate.probe.protocol import QUESTIONS

NOTES: list[dict[str, Any]] = [
    {
        "do": "sentinel",
        "torch": "2.11.0",
        "at": 101.0,
        "wall": 9.0,
        "child": 0.5,
        "below": 0.0,
        "warm_up": 6.5,
    },
    {
        "do": "run",
        "torch": "2.11.0",
        "at": 110.0,
        "wall": 4.0,
        "child": 7.0,
        "below": 5.0,
        "warm_up": 6.5,
    },
    {"do": "run", "torch": "2.11.0", "at": 112.0, "wall": 4.0, "child": 1.0, "warm_up": 6.5},
    {"do": "plain run", "torch": "2.11.0", "at": 118.0, "wall": 1.0, "child": 2.0, "below": 1.5},
    {"do": "observe", "torch": "2.11.0", "at": 118.0, "wall": 1.0},
    {"do": "time", "torch": "2.11.0", "at": 118.0, "wall": 1.0, "held": 1.0},
    *[{"do": "observe", "torch": "2.11.0", "unasked": "kept from an earlier run"}] * 3,
    {"do": "parity", "torch": "2.12.1", "unasked": "nothing changed on this release"},
]
for _note in NOTES:
    _note |= {"patch": None, "device": "cpu"}


def test_each_question_is_asked_in_one_step():
    questions = [question for step in STEPS.values() for question in step]
    assert sorted(questions) == sorted(QUESTIONS)


def test_builds_are_taken_out_of_their_step_and_what_is_left_is_our_own():
    assert list(steps_table(NOTES, 100.0, 120.0, 20.0)) == [
        "one gate run: 20.0 s wall, 20.0 s of CPU; steps overlap",
        "  step                       wall      CPU  share of CPU",
        "  start of the servers       10.0      7.0   35.0%",
        "  import of the patch         0.0      0.0    0.0%",
        "  compile                     1.0      0.0    0.0%",
        "  numbers                     7.0      5.0   25.0%",
        "  latency                     1.0      0.0    0.0%",
        "  C++ builds                    -      5.0   25.0%",
        "  plan, judge, report         1.0      3.0   15.0%",
        "no question was being answered for 2.0 s in between",
        "the device was held alone for 1 s, in 1 cases that were timed",
    ]


def test_spans_that_overlap_count_once():
    assert covered([(5.0, 6.0), (1.0, 3.0), (2.0, 2.5), (2.0, 4.0)]) == 4.0
    assert covered([]) == 0.0


def test_what_was_not_asked_is_counted_by_reason():
    assert list(unasked_table(NOTES)) == [
        "not asked: 4 questions",
        "     3 x  kept from an earlier run: observe 3",
        "     1 x  nothing changed on this release: parity 1",
    ]
    assert list(questions_table(NOTES))[1] == "     8.0 s     2 x  run, cpu, unpatched"
