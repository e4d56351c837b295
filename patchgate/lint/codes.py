"""PG110 to PG149: what is found without a torch, by reading a patch against the API index.

Decides the texts of these codes. PG101 to PG109 are their twins in the running torch.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG110",
        title="module missing",
        what="The patch imports a module of torch that these releases do not have.",
        why="The import raises ModuleNotFoundError, at import of the patch or in the middle of a compile.",
        fix="Narrow the version gate, guard the import, or import from where these releases have it.",
    ),
    Code(
        code="PG111",
        title="name missing",
        what="The patch reads a name of a torch module, class or object that these releases do not have.",
        why="The line raises AttributeError or ImportError as soon as it runs.",
        fix="Use the name that these releases have, guard it with `hasattr`, or narrow the version gate.",
    ),
    Code(
        code="PG112",
        title="name moved",
        what="These releases have the name, but in another module.",
        why="The old place raises ImportError or AttributeError.",
        fix="Import it from the module that the finding names.",
    ),
    Code(
        code="PG113",
        title="signature drift",
        what="The replacement does not take what the replaced function takes in these releases.",
        why="A caller inside torch that passes it raises TypeError in the middle of a compile.",
        fix="Add the parameters that the finding names, or take `**kwargs`; pass them on where you call the original.",
    ),
    Code(
        code="PG114",
        title="form drift",
        what="Target and replacement differ in form: method, static, class method, property, async.",
        why="The call binds other arguments than the replacement expects, or gives a coroutine.",
        fix="Wrap the replacement the way the original is (`staticmethod`, `classmethod`, `property`).",
    ),
    Code(
        code="PG115",
        title="call does not fit",
        what="The patch calls a function of torch with arguments that it does not take in these releases.",
        why="The call raises TypeError when it runs.",
        fix="Pass what these releases take, or narrow the version gate.",
    ),
    Code(
        code="PG116",
        title="config option missing",
        what="The patch reads or sets an option that these releases do not have.",
        why="torch's config modules raise AttributeError for unknown options.",
        fix="Guard it with `hasattr(config, ...)`, or narrow the version gate.",
    ),
    Code(
        code="PG117",
        title="config default differs",
        what="An option that the patch reads has different defaults in the releases where it applies.",
        why="The same patch decides differently from one release to the next.",
        fix="Check that the patch is right for each default; set the option where it matters.",
    ),
    Code(
        code="PG118",
        title="bound too late",
        what="Other modules or tables of torch hold the replaced function by value.",
        why="They keep calling the original: the patch covers only some of the callers.",
        fix="Assign the replacement in the modules that the finding names too.",
    ),
    Code(
        code="PG119",
        title="nothing calls the target",
        what="In these releases no call inside torch goes to the replaced name.",
        why="The patch is installed and does nothing.",
        fix="Find what torch calls now (`patchgate index diff`), or end the gate before these releases.",
    ),
    Code(
        code="PG120",
        title="dead gate",
        what="No row of the matrix satisfies this version check (without a matrix: no indexed release).",
        why="What it guards never runs, so nobody notices when it breaks.",
        fix="Correct the check, or remove what it guards.",
    ),
    Code(
        code="PG121",
        title="gate too wide",
        what="The gate lets releases through in which a name that the guarded code needs is missing.",
        why="The patch is applied there and fails.",
        fix="Narrow the gate to the releases that the finding names.",
    ),
    Code(
        code="PG122",
        title="replaced body changed upstream",
        what="The body of the replaced function differs between the releases that the patch claims.",
        why="A copied override takes the upstream edits of later releases away again.",
        fix="Port the edits (`--details` shows base, upstream and override), or narrow the claim.",
    ),
    Code(
        code="PG123",
        title="versions compared as text",
        what="A gate orders two plain strings.",
        why='As text "2.9" is greater than "2.10".',
        fix="Compare `packaging.version.Version` objects, or `torch.__version__` itself.",
    ),
    Code(
        code="PG124",
        title="local version trap",
        what="The comparison gives another answer for 2.11.0 than for 2.11.0+cu130.",
        why="To PEP 440 a local version is greater than, never equal to, its public one; wheels carry it.",
        fix="Compare `Version(torch.__version__).public`, `.base_version` or `.release`.",
    ),
    Code(
        code="PG125",
        title="prerelease trap",
        what="Nightlies and candidates of a release fall on the other side of the gate than the release.",
        why="2.12.0.dev sorts below 2.12.0, though it already holds most of what 2.12.0 brings.",
        fix="Write the bound as `2.12.0.dev0` (or compare `.release`) when nightlies should count as 2.12.",
    ),
    Code(
        code="PG126",
        title="target missing",
        what="The patch assigns a function to a name that these releases do not have.",
        why="It creates a new attribute that nothing in torch ever calls.",
        fix="Correct the name, or narrow the version gate to the releases that have it.",
    ),
    Code(
        code="PG127",
        title="hunk does not apply",
        what="The lines that a hunk expects are not in the sources of these releases.",
        why="The diff cannot be applied there.",
        fix="Rebase the diff on these releases, or leave them out of its claims.",
    ),
    Code(
        code="PG128",
        title="hunk applies elsewhere",
        what="The hunk applies, but at another line than it names.",
        why="It still works; the further off, the more it deserves a look.",
        fix="Nothing, or refresh the diff.",
    ),
    Code(
        code="PG129",
        title="hunks not placed",
        what="Whether the hunks of the diff apply was not judged: the sources of no release are at hand.",
        why="The index has names and fingerprints, not the lines that a hunk must find.",
        fix="`patchgate lint --fetch PATCH`, or `--sources FOLDER` with a site-packages that has torch in it.",
    ),
    Code(
        code="PG140",
        title="not readable as Python",
        what="The file does not parse, or is nested too deeply to be read.",
        why="Nothing can be said about a file that Python itself would refuse.",
        fix="Correct the syntax at the line given.",
    ),
    Code(
        code="PG141",
        title="unused ignore",
        what="A `# patchgate: ignore[...]` comment silences nothing on its line.",
        why="It would hide the next finding, which is a different one.",
        fix="Remove the comment.",
    ),
)
