"""Another release into the index: its wheels read, the whole index written anew.

Decides the order of releases. Every file is a function of the records alone, so that adding a release twice,
or in another order, gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from packaging.version import Version

from patchgate.lint.index.build import Sources, build_files, in_scope
from patchgate.lint.index.release import Index, opened
from patchgate.lint.index.wheel import Fetched, Wanted, triton_requirement
from patchgate.lint.index.write import write

Fetch = Callable[[str, str, Wanted], Fetched]


def add(index: Index, version: str, fetch: Fetch) -> list[str]:
    """Index `version` with what `fetch` gets; returns what to tell about the reading."""
    torch = fetch("torch", f"=={version}", in_scope)
    version = Version(torch.version).public  # 2.8 means 2.8.0
    told, files, triton = [_told("torch", torch)], torch.files, ""
    requirement = triton_requirement(torch)
    if requirement:
        fetched = fetch("triton", requirement, in_scope)
        told.append(_told("triton", fetched))
        files, triton = files + fetched.files, fetched.version
    others = [sources(index, each) for each in index.spans.releases if each != version]
    everything = [*others, build_files(files, version, triton=triton)]
    write(index.folder, sorted(everything, key=lambda each: Version(each.version)))
    opened.cache_clear()
    return told


def sources(index: Index, version: str) -> Sources:
    """One indexed release as it was when it was built."""
    release, bit = index.release(version), index.spans.bits[version]
    found = Sources(version=version, triton=index.triton[version])
    for name, life in index.lives.items():
        module = release.module(name) if life & bit else None
        if module is not None:
            found.modules[name] = module
            found.calls[name] = [(callee, site) for mask, callee, site in index.calls_in(name) if mask & bit]
    return found


def _told(project: str, fetched: Fetched) -> str:
    size = f"{fetched.bytes_read / 1e6:.1f} MB"
    how = "downloaded whole: the package index answers no ranges" if fetched.whole else "read by ranges"
    return f"{project} {fetched.version}: {len(fetched.files)} sources, {size} {how}"
