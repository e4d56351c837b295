"""A runner that asks what no patch has part in once for the whole corpus.

Decides which answers are the same for every case. What a patch had part in, and every failure, is asked anew.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgate.model.serialization import Answer
from patchgate.runner.client import Runner

# Deterministic, and without a cache directory that a patched process would share.
_SAME = frozenset({"calls", "hooks", "recompiles", "run", "forms", "trace", "sample"})


@dataclass(frozen=True, kw_only=True)
class Remembering(Runner):
    """`kept` is the folder of outputs; each question has a lock, because two cases may ask it at once."""

    kept: Path
    answers: dict[str, Answer] = field(default_factory=dict)
    locks: dict[str, threading.Lock] = field(default_factory=dict)

    def ask(self, torch: str, do: str, seconds: float | None = None, **request: Any) -> Answer:
        if do not in _SAME or request.get("patch"):
            return super().ask(torch, do, seconds, **request)
        outputs = request.pop("outputs", None)
        key = json.dumps([torch, do, request], sort_keys=True)
        with self.locks.setdefault(key, threading.Lock()):
            own = self.kept / hashlib.sha256(key.encode()).hexdigest()[:16] / "outputs"
            if key not in self.answers:
                own.parent.mkdir(parents=True, exist_ok=True)
                answer = super().ask(torch, do, seconds, **request, **({"outputs": str(own)} if outputs else {}))
                if "failure" in answer:
                    return answer
                self.answers[key] = answer
            if outputs:
                # A copy: the patched side may write where the other's outputs lie.
                shutil.copyfile(own, outputs)
            return self.answers[key]
