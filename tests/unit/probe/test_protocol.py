"""Every question has a handler with its types, and a request that is none is refused before
anything is forked.
"""

import ast
import json
import socket
from typing import get_type_hints, is_typeddict

import pytest

from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.paths import PACKAGE
from patchgate.model.records import Cause, Workload
from patchgate.model.serialization import failure_of
from patchgate.probe.process.message_schema import refusal, reply_fault
from patchgate.probe.protocol import QUESTIONS, Compare, Limits
from patchgate.probe.serve.server import Server
from patchgate.runner.client import request_for

COMMON = {"limits": {"seconds": 5, "bytes": 0}}
DIFFER = {
    "do": "differ",
    **COMMON,
    "profile": {"kind": "codegen"},
    "unpatched": "a",
    "patched": "b",
}


@pytest.mark.parametrize("do", QUESTIONS)
def test_a_question_has_typed_requests_and_answers(do):
    request, answer, *_ = QUESTIONS[do]
    assert is_typeddict(request)
    assert is_typeddict(answer)
    assert {"do", "limits"} <= request.__required_keys__
    assert get_type_hints(request)["limits"] is Limits


@pytest.mark.parametrize("do", QUESTIONS)
def test_a_question_is_answered_by_a_function_of_its_types(do):
    question = QUESTIONS[do]
    path = PACKAGE.joinpath(*question.module.split(".")[1:]).with_suffix(".py")
    name = question.answered_by.partition(":")[2]
    functions = [
        node
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    (function,) = functions
    types = [ast.unparse(argument.annotation) for argument in function.args.args]
    if question.request is Compare:
        assert types == ["str", "str"]
    else:
        given = [*types, ast.unparse(function.returns)]
        assert given == [question.request.__name__, "Stage", question.answer.__name__]


def test_two_questions_have_no_answer_in_common():
    answering = [question.answered_by for question in QUESTIONS.values()]
    assert len(set(answering)) == len(answering)


@pytest.mark.parametrize("do", QUESTIONS)
def test_a_request_needs_all_required_keys_and_may_have_the_others(do):
    kind = QUESTIONS[do].request
    least = dict.fromkeys(kind.__required_keys__) | {"do": do} | COMMON
    most = dict.fromkeys(kind.__required_keys__ | kind.__optional_keys__) | {"do": do} | COMMON
    assert refusal(least) is None
    assert refusal(most) is None


@pytest.mark.parametrize(
    "do",
    [do for do, (request, *_) in QUESTIONS.items() if "workload" in request.__required_keys__],
)
def test_what_the_host_says_of_a_case_fits_every_question_on_a_workload(do):
    workload = Workload(name="stack", path="stack.py", dtype="float32")
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"))
    kind = QUESTIONS[do].request
    assert (
        request_for(workload, {}, patch).keys() <= kind.__required_keys__ | kind.__optional_keys__
    )


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (
            {name: value for name, value in DIFFER.items() if name != "patched"},
            "`differ`: the key `patched` is missing",
        ),
        (DIFFER | {"seeds": [0]}, "`differ`: the key `seeds` is unknown"),
        (DIFFER | {"limits": {"seconds": 5}}, "`differ`: the key `bytes` is missing"),
        (DIFFER | {"limits": 5}, "`differ`: Limits is a JSON object"),
        (DIFFER | {"do": "dance"}, "no question 'dance'; there are: sentinel, observe,"),
        (DIFFER | {"do": ["differ"]}, "no question ['differ']; there are:"),
        ({}, "no question None; there are:"),
        (None, "a request is a JSON object"),
    ],
)
def test_a_request_that_is_none_is_refused_with_the_reason(request_, why):
    assert refusal(request_).startswith(why)
    assert refusal(DIFFER) is None


@pytest.mark.parametrize(
    "line", [b"not json\n", b"\n", b"{}\n", json.dumps(DIFFER | {"seeds": [0]}).encode() + b"\n"]
)
def test_the_server_answers_such_a_request_with_a_failure_of_the_machine(tmp_path, line):
    control, theirs = socket.socketpair()
    connection, channel = socket.socketpair()
    with control, theirs, connection:
        with channel:
            socket.send_fds(control, [b"."], [channel.fileno()])
        connection.sendall(line)
        assert Server(theirs, str(tmp_path), "nothing")._start(theirs)
        answer = json.loads(connection.makefile("rb").readline())
    failure = failure_of(answer)
    assert (failure.cause, failure.stage, failure.where) == (Cause.MACHINE, "request", None)
    assert "\n" not in failure.signature
    assert not list(tmp_path.iterdir())


def test_a_host_that_has_gone_ends_the_server(tmp_path):
    control, theirs = socket.socketpair()
    control.close()
    with theirs:
        assert not Server(theirs, str(tmp_path), "nothing")._start(theirs)


REPLY = {
    "facts": {"loads": [2, 1], "bytes": {"unmeasured": "no counter"}},
    "environment": {"torch": "2.11.0"},
}


def of_facts(facts: object) -> object:
    return REPLY | {"facts": facts}


FAILURE = {
    "cause": "raised",
    "stage": "",
    "signature": "",
    "detail": "",
    "where": None,
    "raised_at": None,
    "missing": [],
}


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (1, "OptionFacts is a JSON object"),
        ([], "OptionFacts is a JSON object"),
        ({}, "the key `environment` is missing"),
        (REPLY | {"green": True}, "the key `green` is unknown"),
        (REPLY | {"environment": {"torch": 2}}, "the reply.environment.torch is no str"),
        (of_facts([]), "the reply.facts is no dict"),
        (of_facts({"loads": 1.5}), "the reply.facts.loads is no fact"),
        (of_facts({"loads": {"unmeasured": 1}}), "the reply.facts.loads is no fact"),
        (of_facts({"loads": [[1]]}), "the reply.facts.loads is no fact"),
        (of_facts({"loads": True}), "the reply.facts.loads is no fact"),
        (of_facts({"loads": 1 << 70}), "too large a number"),
        (of_facts({"loads 2.11.0..2.15.0 4": 1}), "is no name of a fact"),
        (of_facts({"loads\nbytes": 1}), "is no name"),
        (of_facts({"x" * 1000: 1}), "is no name"),
        ({"failure": 1}, "the reply.failure: Failure is a JSON object"),
        ({"failure": FAILURE | {"signature": 1}}, "signature is no"),
        ({"failure": FAILURE | {"raised_at": 1}}, "raised_at is none of"),
    ],
)
def test_a_reply_that_does_not_fit_its_question_is_named(reply, why):
    assert why in reply_fault("options", reply)
    assert reply_fault("options", REPLY) is None


def test_a_reply_without_a_type_of_its_own_is_not_nested_without_end():
    deep: object = 1
    for _ in range(20):
        deep = [deep]
    assert "nested too deep" in reply_fault("differ", {"metrics": {"ulps": deep}, "unreadable": ""})
    flat = {"metrics": {"ulps": [[1.0]], "repeats": {"patched": True}}, "unreadable": ""}
    assert reply_fault("differ", flat) is None
