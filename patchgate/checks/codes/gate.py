"""PG2xx: whether a patch applies exactly where it claims to, and is needed there.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG201",
        title="applies where it is not claimed",
        what="With this version of torch faked, running the patch replaced a target outside `applies_to`.",
        why="A patch written for one release changes a compiler that nobody tested it on.",
        fix="Tighten the version check in the patch, or widen `applies_to` and let the gate judge it there.",
    ),
    Code(
        code="PG202",
        title="does not apply where it is claimed",
        what="With a version of torch faked that lies in `applies_to`, running the patch replaced nothing.",
        why="Users of that release believe they have the fix and do not. Local (+cu130), dev, rc and post"
        " parts of a version are the usual cause.",
        fix="Compare releases, not strings: `Version(torch.__version__).release`, or a SpecifierSet with"
        " `prereleases=True`.",
    ),
    Code(
        code="PG203",
        title="gate too narrow: the symptom persists where the patch is gated out",
        what="On this torch the patch does not apply, yet its own symptom is measured without it.",
        why="Whoever upgrades torch loses the cure silently. `fixed_in` was believed, not measured.",
        fix="Widen `applies_to` (and the check in the patch) to cover this release, correct `fixed_in`, or"
        " say in the symptom what really goes wrong.",
    ),
    Code(
        code="PG204",
        title="needless: the symptom is absent without the patch",
        what="The patch applies on this torch, but the defect that it cures is not there.",
        why="Torch does it by itself now; the patch only adds risk.",
        fix="Narrow `applies_to` to the releases that show the symptom, or drop the patch.",
    ),
    Code(
        code="PG205",
        title="the patch does not cure its symptom",
        what="The patch applies, and its symptom is still there.",
        why="Either the patch does nothing here, or the symptom is not what it cures.",
        fix="Look at the facts of the symptom's workload with and without the patch.",
    ),
    Code(
        code="PG206",
        title="applied twice when imported twice",
        what="Running the module a second time wrapped the replacement in itself.",
        why="Reloads, two import paths and test runners do this; the effect then doubles.",
        fix="Mark the replacement (an attribute on the function) and return early when it is there.",
    ),
    Code(
        code="PG207",
        title="touches something outside its targets",
        what="Running the patch changed an attribute of a torch module, class or registry that `targets`"
        " does not name.",
        why="What is not claimed is not reviewed. Without a manifest the strict claim holds: nothing else.",
        fix="Add it to `targets`, or leave it alone.",
    ),
    Code(
        code="PG208",
        title="import has side effects",
        what="Importing the patch asked a device, or wrote environment variables, torch config, working"
        " directory or umask, and neither `targets` nor `effects` tells of it.",
        why="An initialised CUDA breaks forked workers, though `torch.cuda.is_initialized()` may stay False;"
        " a global setting reaches code and child processes that never asked.",
        fix="Move it out of import time, or scope it with `config.patch` around the compile. A config option that"
        " must be set for the whole process is claimed by its name in `targets`, anything else in `effects`"
        ' ("environment NAME").',
    ),
    Code(
        code="PG209",
        title="claimed target was not replaced",
        what="The patch applies on this torch but leaves one of its `targets` as it was.",
        why="The manifest promises more than the code does; a reader trusts the manifest.",
        fix="Replace it or take it out of `targets`.",
    ),
    Code(
        code="PG210",
        title="the patch does not run",
        what="Running the patch's module raised, exited, hung, crashed or ran out of memory.",
        why="Whatever imports it fails the same way, or never comes back.",
        fix="Read the line that it points to. Time and memory limits: `--time-limit`, `--memory-limit`.",
    ),
    Code(
        code="PG211",
        title="gate holds",
        what="The patch applies exactly where claimed, once, touches only its targets, and is needed.",
        why="This is what a gate is for.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG212",
        title="the symptom could not be measured",
        what="The fact that the symptom names was not reported for the unpatched workload.",
        why="Whether the patch is needed there is not known, and not known is not green.",
        fix="Check the fact's name against verdicts.json or golden/, and the workload on that torch.",
    ),
    Code(
        code="PG213",
        title="overwrites a setting of the user's",
        what="With the variable or option set to another value before the import, the import replaced it.",
        why="Whoever set it on purpose loses it without a word.",
        fix="`os.environ.setdefault(...)`, or leave an option alone that differs from its default.",
    ),
    Code(
        code="PG214",
        title="the setting does not reach other threads",
        what="A config option that the patch sets at import has its old value in a new thread.",
        why="From torch 2.12 on a direct assignment holds for the context that made it; autograd's workers and"
        " compile threads see the default.",
        fix="Set it where the compile runs (`config.patch`), or by its environment variable before torch is imported."
        ' If only the importing thread is meant, claim it: `effects = ["thread-local NAME"]`.',
    ),
    Code(
        code="PG215",
        title="the environment variable has no effect",
        what="The patch sets a variable that nothing in this torch reads, or that was read before it was set.",
        why="The patch looks as if it switched something, and does not.",
        fix="Use the variable or option that this release reads, before torch is imported.",
    ),
    Code(
        code="PG216",
        title="import starts threads, processes or connections",
        what="Running the module started something that goes on after the import.",
        why="Whoever imports it pays, and a forked worker inherits locks that nobody releases.",
        fix="Start it where it is needed, once.",
    ),
    Code(
        code="PG217",
        title="torch.compile is called at import",
        what="Running the module called `torch.compile`, for instance as a decorator.",
        why="It loads the whole compiler (more than a thousand modules) into every process that imports the"
        " patch, and fails where Dynamo does not support the Python.",
        fix='Compile at first use, or declare it: `effects = ["compile"]`.',
    ),
    Code(
        code="PG218",
        title="import writes files",
        what="Running the module wrote, moved or deleted files outside its temporary folder.",
        why="An import that changes files changes other processes, and fails where the disk is read-only.",
        fix="Write where the user asks for it, below a folder that is the patch's own.",
    ),
    Code(
        code="PG219",
        title="changes torch outside its scope",
        what="The patch changed torch by being imported, or left a change behind when its `scope` ended: a name,"
        " or a workload whose facts are others afterwards.",
        why="Another compile in the same process gets a compiler that nobody asked for.",
        fix="Replace on entering and put back on leaving, also after an exception (`mock.patch.object`).",
    ),
    Code(
        code="PG220",
        title="applies on no supported release",
        what="`applies_to` holds none of the torch releases in ci/matrix.toml.",
        why="What can never run is never judged, and nobody notices when it breaks.",
        fix="Drop the patch, or add a row for a release where it applies.",
    ),
)
