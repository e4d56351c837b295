"""Do the operators that the patch defines do what their schemas and their fake functions say? On
the CPU.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import partial

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Patch,
    Verdicts,
    display_path,
    failure_of,
    judge_failed,
    read_codes,
    verdict_of,
)
from patchgate.checks.holders import assignment_place
from patchgate.inputs.patch_source import Unreadable, parse

FAMILY = "parity"
CODES = read_codes("""
PG541 a custom operator is not what it says
    An operator that the patch defines runs in eager mode, and `torch.library.opcheck` fails for the
    same arguments: its fake function gives another dtype, shape or stride than the operator, or is
    missing; it changes or returns an argument, which its schema does not say; it gives something
    else under AOTAutograd; or its fake function makes the number of rows a constant. Strides are
    compared also where the operator keeps those of arguments that are channels last, have
    transposed heads, or are parts of wider rows. Or its gradient raises, is missing or
    has other numbers where the gradient of the result is transposed or expanded in memory, or where
    the arguments are laid out in another way that the operator takes; or it is not the slope of the
    result, which is measured in float64. A gradient that is zero or missing is not judged, nor that
    of a result that is a step, equals an argument, or has a part without a gradient. An operator
    that another one calls, as that of its gradient, gets the arguments of these calls.
    Why: Users who compile a model with this operator get an exception, or wrong numbers with no
    error message: the compiler relies on the fake function and the schema.
    Or they wait for a compile of each number of rows. In training the gradient that arrives may
    have any layout: after a sum it is expanded, after a transpose it is stored by columns.
    Fix: Return from `register_fake` what the operator returns, with sizes that stay as they are
    given (no `int(...)`) and the strides that it has: `torch.empty_like(x)` keeps those of `x`, and
    `x.new_empty(x.shape)` does not. Name what it changes in `mutates_args`, and return a copy in
    place of an argument. `torch.autograd.gradcheck` shows where a gradient is wrong; in one
    `reshape` and `contiguous` take any layout, and `view` does not.
PG542 custom operators are what they say
    `torch.library.opcheck` finds no fault in calls of the operators that the patch defines.
    Why: Users who compile a model call the operator by its schema and its fake function alone.
    Fix: Nothing to do.
PG543 a custom operator was not judged in full
    No call of the operator ran here: it has no CPU implementation, its schema does not suffice to
    make arguments, or it is named as a gradient and no other operator called it. Or opcheck fails
    with some arguments only, and it is unknown which are meant.
    Why: Users who compile a model with it rely on behaviour that was not compared.
    Fix: Call `torch.library.opcheck` in a test of your own, with arguments of yours.
""")
verdict = partial(verdict_of, FAMILY, item="custom operators")
_EXPECTED = "what its schema and its fake function say"
# The time limit, as a multiple of the limit of one case. To compile one call takes some tenths of a
# second, as no code is generated.
_COMPILES = 4
# Text of a fault in a fake function or gradient -> the functions by which a patch registers such a
# function. `_DEFINES` names the functions that define an operator.
_REGISTERS = {
    re.compile(": (faketensor: |its fake function )"): {"register_fake", "impl_abstract"},
    re.compile(": its gradient "): {"register_autograd"},
}
_DEFINES = {"custom_op", "define"}


@Check(believes="cpu", seconds=3)
def ask_custom_operators(context: CheckContext, at: Instance) -> Verdicts:
    torch, patch = at.case.torch, context.patch
    names = context.apply(torch).get("defined", ())
    if not names or not patch.is_claimed(torch):
        raise NothingToJudge("the patch defines no operator, or not here")
    answer = context.ask_once(
        torch, "custom operators", "cpu", patch=patch, compiles=_COMPILES, operators=list(names)
    )
    failed = judge_failed(
        FAMILY, ("PG541", "PG543"), at.case, (None, failure_of(answer)), "runs", item=names[0]
    )
    if failed:
        return [failed]
    return judge_custom_operators(at.case, patch, answer["operators"])


def judge_custom_operators(case: Case, patch: Patch, operators: Mapping[str, Answer]) -> Verdicts:
    """Return PG541 for each operator with a fault, PG543 for each operator of which no call ran or
    which has a fault with some arguments only, and one PG542 for all others.
    """
    sound = [
        name
        for name, each in operators.items()
        if each["calls"] and not (each["faults"] or each["some"])
    ]
    for name, each in operators.items():
        if each["faults"]:
            faults = tuple(each["faults"])
            place = operator_place(patch, name, faults[0])
            yield verdict("PG541", Kind.REGRESSED, case, f"of {name}", _EXPECTED, faults, place)
        elif each["some"] or not each["calls"]:
            place = operator_place(patch, name)
            reason = f"with some arguments {each['some'][0]}" if each["some"] else "no call ran"
            yield verdict("PG543", Kind.WARNING, case, f"of {name}", _EXPECTED, reason, place)
    if sound:
        calls = sum(operators[name]["calls"] for name in sound)
        actual = f"{', '.join(sound)}: {calls} calls"
        yield verdict("PG542", Kind.PASS, case, "", _EXPECTED, actual)


def operator_place(patch: Patch, name: str, fault: str = "") -> str:
    """The line of the fake function or gradient if the fault is in it and the line is found; else
    the line that defines the operator.
    """
    registers = {word for text, words in _REGISTERS.items() if text.search(fault) for word in words}
    try:
        tree = parse(patch.source)
        statements = sorted(_statements(tree), key=lambda each: each[0])
    except (Unreadable, RecursionError):
        statements = []
    functions = {target: line for line, words, target in statements if not words}
    known, own, part = {name.rpartition("::")[2]}, 0, 0
    for line, words, target in statements:
        if known.isdisjoint(words):
            continue
        if not registers.isdisjoint(words):
            given = (functions[word] for word in words if word in functions and word not in known)
            part = line if target else next(given, line)
        elif not _DEFINES.isdisjoint(words):
            own = own or line
            known.add(target)
        elif len(words) == 2:  # NAME = "namespace::operator"
            known.add(target)
    found = part or own
    if not found:
        return assignment_place(patch, name.replace("::", "."))
    return f"{display_path(patch.path)}:{found}"


def _statements(tree: ast.AST) -> Iterator[tuple[int, list[str], str]]:
    """The line, the words and the target of each decorator, call and assigned value, which may
    register a function. Each function is included too, without words.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.lineno, [], node.name
            for each in node.decorator_list:
                yield node.lineno, re.findall(r"\w+", ast.unparse(each)), node.name
        elif isinstance(node, (ast.Expr, ast.Assign)) and isinstance(
            node.value, (ast.Call, ast.Constant)
        ):
            target = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
            yield node.lineno, re.findall(r"\w+", ast.unparse(node.value)), target
