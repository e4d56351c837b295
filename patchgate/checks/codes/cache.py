"""PG7xx: whether the compiler's caches know of the patch.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

_REMEDY = (
    "Put a digest of the patch's own text into the key, where the patch is applied: wrap"
    " `torch._inductor.codecache.FxGraphHashDetails.__init__` so that it sets one more attribute"
    " (fixtures/patches/vllm-42686-corrected does), and name it in `targets`. Setting"
    " `torch.compiler.config.cache_key_tag` does it too, but from torch 2.12 on for one thread only."
)

CODES = (
    Code(
        code="PG701",
        title="a stale artifact hides the patch",
        what="With a cache that was warmed without the patch, the patched process ran the unpatched code; or the"
        " other way round.",
        why="The FX-graph and AOTAutograd caches know graph, inputs, config and torch's files, but not what was"
        " replaced in memory. Whatever is measured that way is void, and whoever shares the cache gets the wrong"
        " kernels.",
        fix=_REMEDY,
    ),
    Code(
        code="PG702",
        title="the patch switches the cache off",
        what="With the patch the cache refuses graphs (bypass) that it takes without it.",
        why="Every process compiles everything anew. A plain function as a custom pass is the usual cause.",
        fix="Install a `torch._inductor.custom_graph_pass.CustomGraphPass` whose `uuid` digests the pass's source.",
    ),
    Code(
        code="PG703",
        title="the cache key does not follow the patch's text",
        what="A patch with an edit in its functions finds the code that the patch before the edit left in the cache.",
        why="The next version of the patch will run the kernels of this one: a constant uuid or tag never tells"
        " two versions apart.",
        fix="Make the key a digest of the source (`torch._inductor.custom_graph_pass.get_hash_for_files` for a"
        " uuid). " + _REMEDY,
    ),
    Code(
        code="PG704",
        title="the patch never finds its own code again",
        what="A second process with the same patch does not hit what the first one left in the cache.",
        why="The key changes from process to process, so every process compiles everything anew.",
        fix="Make the key a digest of the source: nothing that depends on the process, the time or chance.",
    ),
    Code(
        code="PG705",
        title="the cache holds",
        what="Patched and unpatched processes that share a cache directory each run their own code; or the patch"
        " leaves the code of this workload as it is, so that a stale one would be the same.",
        why="Figures taken with a warm cache are figures of the patch.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG706",
        title="does not compile with the caches on",
        what="Unpatched the workload compiles with the caches on; with the patch it fails.",
        why="The caches are on for every user.",
        fix="Read the failure; what a patch leaves in a graph or a config must be picklable.",
    ),
    Code(
        code="PG707",
        title="Triton's cache hides the patch",
        what="The patch changes the machine code of a kernel whose source it leaves as it is, and with a Triton cache"
        " that was warmed without the patch the patched process ran the unpatched machine code; or the other way"
        " round.",
        why="Triton finds a kernel by its source, its options, the target and Triton's own files, but not by what was"
        " replaced in memory.",
        fix="Put a digest of the patch's own text into Triton's key, where the patch is applied: wrap `hash` of the"
        " backend (`triton.backends.nvidia.compiler.CUDABackend.hash`), as fixtures/verdicts/PG708-own-key.py does; or"
        " give the patch a TRITON_CACHE_DIR of its own, where it ran its own machine code here.",
    ),
    Code(
        code="PG708",
        title="Triton's cache holds",
        what="Kernels that have the same source with and without the patch have the same machine code, or each side"
        " ran its own beside a cache that the other had warmed.",
        why="Figures taken with a warm Triton cache are figures of the patch.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG709",
        title="the machine failed, not the patch",
        what="The unpatched side of this comparison failed, or the machine did, also when tried again.",
        why="It is never held against the patch.",
        fix="Run again; if it stays, look at disk, memory and limits.",
    ),
)
