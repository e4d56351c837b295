"""A small seeded decoder with random weights, and the tokens that it samples.

Model, prompts and sampling noise are the same on every side, so that only the compiled numbers can
change a token.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from patchgate.probe.compile.caches import loaded_code
from patchgate.probe.compile.generated_code import digest_of_code
from patchgate.probe.compile.observe import environment
from patchgate.probe.numerics.numeric_metrics import load_files
from patchgate.probe.numerics.outputs import backend_of, reproducible, save_outputs, unmeasured
from patchgate.probe.patch.load import built_outside
from patchgate.probe.protocol import Ran, SampleTokens, Stage

# Sequences, tokens of each prompt, and tokens sampled after it.
PROMPTS, GIVEN, TOKENS = 64, 4, 64
_VOCABULARY, _HIDDEN, _HEADS, _LAYERS = 512, 64, 4, 2
_LENGTH = GIVEN + TOKENS


class _Layer(torch.nn.Module):
    """Attention over a cache and a gated MLP, each between two norms."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ParameterList(1 + 0.1 * torch.randn(_HIDDEN) for _ in range(4))
        self.qkv = torch.nn.Linear(_HIDDEN, 3 * _HIDDEN, bias=False)
        self.out = torch.nn.Linear(_HIDDEN, _HIDDEN, bias=False)
        self.gate_up = torch.nn.Linear(_HIDDEN, 8 * _HIDDEN, bias=False)
        self.down = torch.nn.Linear(4 * _HIDDEN, _HIDDEN, bias=False)

    def forward(self, h: Any, keys: Any, values: Any, current: Any, visible: Any) -> Any:
        q, k, v = self.qkv(_norm(h, self.norms[0])).chunk(3, dim=-1)
        keys, values = (
            torch.where(current, new[:, None], old) for new, old in ((k, keys), (v, values))
        )
        q, ks, vs = (t.unflatten(-1, (_HEADS, -1)) for t in (q, keys, values))
        scores = torch.einsum("bhd,bthd->bht", q, ks) * (_HIDDEN // _HEADS) ** -0.5
        mixed = torch.einsum("bht,bthd->bhd", scores.masked_fill(~visible, -1e9).softmax(-1), vs)
        h = h + _norm(self.out(mixed.flatten(1)), self.norms[1])
        gate, up = self.gate_up(_norm(h, self.norms[2])).chunk(2, dim=-1)
        return h + _norm(self.down(F.silu(gate) * up), self.norms[3]), keys, values


class _Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(_VOCABULARY, _HIDDEN)
        self.layers = torch.nn.ModuleList(_Layer() for _ in range(_LAYERS))
        self.norm = torch.nn.Parameter(torch.ones(_HIDDEN))

    def forward(self, tokens: Any, caches: Any, current: Any, visible: Any) -> Any:
        h, updated = self.embedding(tokens), []
        for layer, (keys, values) in zip(self.layers, caches, strict=True):
            h, keys, values = layer(h, keys, values, current, visible)
            updated.append((keys, values))
        return _norm(h, self.norm) @ self.embedding.weight.T, updated


def _norm(x: Any, weight: Any) -> Any:
    return F.rms_norm(x, x.shape[-1:], weight)


def sample(request: SampleTokens, stage: Stage) -> Ran:
    """Write the tokens of every prompt, first sampled greedily and then with seeded noise."""
    missing = unmeasured(request, stage, partial(_write_tokens, request))
    code = [] if missing else [digest_of_code(text) for text in loaded_code()]
    return {"environment": environment(), "code": code, "unmeasured": missing}


def _write_tokens(request: SampleTokens) -> None:
    torch.manual_seed(0)
    profile, count = request["profile"], request.get("tokens", TOKENS)
    # The code for a simulated device is run on the CPU.
    device = torch.device("cpu" if profile["kind"] == "simulated" else profile["backend"])
    with reproducible(profile):
        # Made on the CPU: the same weights, prompts and noise on every device.
        with built_outside():
            decoder = _Decoder().to(device, torch.bfloat16)
            prompts = torch.randint(_VOCABULARY, (PROMPTS, GIVEN)).repeat(2, 1).to(device)
            # The largest of logits plus Gumbel noise is a draw from their softmax.
            noise = -torch.empty(TOKENS, 2 * PROMPTS, _VOCABULARY).exponential_().log()
        step = torch.compile(decoder, backend=backend_of(profile, {}))
        noise[:, :PROMPTS] = 0
        noise = noise.to(device)
        shape = (2 * PROMPTS, _LENGTH, _HIDDEN)
        # Each cache is a tensor of its own: shared tensors would need another compile after the
        # first step.
        options = {"dtype": torch.bfloat16, "device": device}
        caches = [tuple(torch.zeros(shape, **options) for _ in range(2)) for _ in range(_LAYERS)]
        tokens = prompts
        for position in range(GIVEN + count - 1):
            current = (torch.arange(_LENGTH, device=device) == position)[:, None]
            visible = torch.arange(_LENGTH, device=device) <= position
            # Without the copy, a column's stride would grow with every token, and each stride would
            # need a compile.
            logits, caches = step(tokens[:, position].clone(), caches, current, visible)
            if position >= GIVEN - 1:
                drawn = (logits.float() + noise[position - GIVEN + 1]).argmax(-1, keepdim=True)
                tokens = torch.cat((tokens, drawn), dim=1)
    tokens = tokens.cpu()
    written = {"greedy": tokens[:PROMPTS, GIVEN:], "sampled": tokens[PROMPTS:, GIVEN:]}
    save_outputs(written, request["outputs"])


def differ(unpatched: str, patched: str) -> dict[str, dict[str, int]]:
    """For greedy and for sampled tokens: the numbers of sequences and tokens that changed, and of
    tokens that both sides drew from the same context.
    """
    ours, theirs = load_files(unpatched, patched)
    return {mode: _counts(tokens, theirs[mode]) for mode, tokens in ours.items()}


def _counts(ours: torch.Tensor, theirs: torch.Tensor) -> dict[str, int]:
    changed = ours != theirs
    diverged = changed.any(1)
    # The tokens of each sequence up to and including the first that changed.
    alike = torch.where(diverged, changed.int().argmax(1) + 1, ours.shape[1])
    first = int(diverged.int().argmax())
    at = int(alike[first]) - 1
    return {
        "sequences": ours.shape[0],
        "tokens": ours.numel(),
        "changed_sequences": int(diverged.sum()),
        "changed_tokens": int(changed.sum()),
        "drawn_alike": int(alike.sum()),
        # The first token that differs, and the token that each side drew there.
        "first_sequence": first,
        "first_token": at,
        "first_before": int(ours[first, at]),
        "first_after": int(theirs[first, at]),
    }
