"""Another way to see drift, to check the index by: the function's own lines, cut out and tokenized;
no `ast`.

Run as `python drift_by_tokens.py RELEASE=SITE_PACKAGES...` (oldest first) it prints the data of
test_index_drift.py.
"""

import hashlib
import io
import re
import sys
import tokenize
from itertools import pairwise
from pathlib import Path

# Names that vLLM has replaced -> the place in its public history that shows it.
NAMES = {
    "torch._inductor.ir.StorageBox.should_realize_on_reuse": "pull request 42686",
    "torch._inductor.lowering.constrain_to_fx_strides": "pull requests 35475, 36152, 39286",
    "torch._inductor.compile_fx._recursive_pre_grad_passes": "pull request 34092",
    "torch._inductor.runtime.cache_dir_utils.default_cache_dir": "pull request 44579",
    "torch._inductor.codegen.wrapper.PythonWrapperCodegen.memory_plan_reuse": "vllm/env_override.py",
    "torch._inductor.graph.GraphLowering._update_scheduler": "pull request 26735",
    "torch._inductor.scheduler.Scheduler.should_partition": "pull request 26735",
    "torch._inductor.scheduler.Scheduler.get_graph_partition_signature": "vllm/env_override.py",
    "torch._inductor.codecache.compiled_fx_graph_hash": "vllm/compilation/compiler_interface.py",
    # Replaced on FxGraphCache and AOTAutogradCache, which have it from here.
    "torch._inductor.codecache.GuardedCache._get_shape_env": "vllm/compilation/compiler_interface.py",
    "torch._inductor.codecache.FxGraphCache._check_can_cache": "vllm/compilation/compiler_interface.py",
    "torch._dynamo.convert_frame.GraphCaptureOutput.get_runtime_env": (
        "pull requests 37234, 38763, 40636"
    ),
    "torch._dynamo.symbolic_convert.InliningInstructionTranslator.inline_call_": "vllm/compilation/decorators.py",
}


def cut(text, owner, name):
    """The lines of one function, from its decorators on, found by indentation alone."""
    lines, start, indent = text.splitlines(), 0, ""
    if owner:
        start = next(
            (at for at, line in enumerate(lines) if re.match(rf"class {owner}\b", line)), None
        )
        if start is None:
            return None
        indent = "    "
    for at in range(start + bool(owner), len(lines)):
        line = lines[at]
        if owner and line and not line[0].isspace() and line[0] not in "#)":
            return None
        if re.match(rf"{indent}(async )?def {name}\b", line):
            break
    else:
        return None
    stop = at + 1
    while stop < len(lines) and (
        not lines[stop].strip() or re.match(rf"{indent}(\s|\))", lines[stop])
    ):
        stop += 1
    first = at
    while lines[first - 1].startswith(f"{indent}@"):
        first -= 1
    return "\n".join(line[len(indent) :] for line in lines[first:stop]) + "\n"


def tokens(text):
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER)
    return [
        each
        for each in tokenize.generate_tokens(io.StringIO(text).readline)
        if each.type not in silent
    ]


def seen(text):
    """(signature without annotations, hash of the body without docstring) of one function."""
    found, depth, at = tokens(text), 0, 0
    method = "".join(line.strip() for line in text.splitlines() if line.startswith("@"))
    while found[at].string != "def":
        at += 1
    signature, note, returning = [method], False, False
    while True:
        at += 1
        word = found[at].string
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if word == ":" and depth == 0:
            break
        returning = returning or word == "->"
        if (word == ":" and depth == 1) or returning:
            note = True
        elif depth <= 1 and word in (",", "=", ")"):
            note = False
        if not note and word.strip():
            signature.append(word)
    body = [each.string.strip() for each in found[at + 1 :] if each.string.strip()]
    if body and re.match(r"[rbu]*[\"']", body[0]):
        body = body[1:]
    # A comma before a closing bracket is layout.
    joined = re.sub(r", ([)\]}])", r"\1", " ".join(body))
    return re.sub(r", ?\)", ")", " ".join(signature)), hashlib.sha256(joined.encode()).hexdigest()


def look(root, name):
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        file = Path(root, *parts[:at]).with_suffix(".py")
        if file.is_file():
            owner, _, function = ".".join(parts[at:]).rpartition(".")
            text = cut(file.read_text(), owner, function)
            return seen(text) if text else None
    return None


def steps(name, roots):
    for (old, before), (new, after) in pairwise(
        (version, look(root, name)) for version, root in roots
    ):
        if before is None or after is None:
            if before is not after:
                yield old, new, "gone" if after is None else "new"
        elif before != after:
            what = [word for word, at in (("signature", 0), ("body", 1)) if before[at] != after[at]]
            yield old, new, "; ".join(what)


if __name__ == "__main__":
    releases = [each.split("=", 1) for each in sys.argv[1:]]
    for name in NAMES:
        print(f'    "{name}": {list(steps(name, releases))!r},')
