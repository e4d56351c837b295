"""Blocks of public models in plain torch, at sizes of their own: what is timed here is no workload of the gate.

Each function makes parameters and inputs on the current device, and returns what is called and its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Made = tuple[Callable[..., Any], tuple[Tensor, ...]]
BF16 = torch.bfloat16


def weight(*size: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*size, dtype=dtype) / math.sqrt(size[-1])


def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def angles(length: int, size: int) -> tuple[Tensor, Tensor]:
    inverse = 10000 ** -(torch.arange(0, size, 2) / size)
    phase = torch.outer(torch.arange(length), inverse).repeat(1, 2)
    return phase.cos().to(BF16), phase.sin().to(BF16)


def heads_of(x: Tensor, heads: int) -> Tensor:
    batch, length, hidden = x.shape
    return x.view(batch, length, heads, hidden // heads).transpose(1, 2)


def decoder(batch: int, length: int, hidden: int, heads: int, groups: int, inner: int, layers: int, style: str) -> Made:
    """Llama ("plain"), Qwen3 ("qk", norms on queries and keys) or Gemma ("post", norms after each part too)."""
    size, qk, post = hidden // heads, style != "plain", style == "post"
    ws = [
        {
            "q": weight(hidden, hidden),
            "k": weight(groups * size, hidden),
            "v": weight(groups * size, hidden),
            "o": weight(hidden, hidden),
            "gate": weight(inner, hidden),
            "up": weight(inner, hidden),
            "down": weight(hidden, inner),
            **{name: 1 + 0.1 * weight(hidden) for name in ("n1", "n2", "n3", "n4")},
            **{name: 1 + 0.1 * weight(size) for name in ("nq", "nk")},
        }
        for _ in range(layers)
    ]
    last = weight(hidden)
    cos, sin = angles(length, size)

    def forward(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        for w in ws:
            h = rms_norm(x, w["n1"])
            q, k = heads_of(F.linear(h, w["q"]), heads), heads_of(F.linear(h, w["k"]), groups)
            v = heads_of(F.linear(h, w["v"]), groups)
            if qk:
                q, k = rms_norm(q, w["nq"]), rms_norm(k, w["nk"])
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            mixed = F.linear(mixed.transpose(1, 2).reshape(x.shape), w["o"])
            x = x + (rms_norm(mixed, w["n3"]) if post else mixed)
            h = rms_norm(x, w["n2"])
            gate = F.linear(h, w["gate"])
            gate = F.gelu(gate, approximate="tanh") if post else F.silu(gate)
            out = F.linear(gate * F.linear(h, w["up"]), w["down"])
            x = x + (rms_norm(out, w["n4"]) if post else out)
        return rms_norm(x, last)

    return forward, (torch.randn(batch, length, hidden, dtype=BF16), cos, sin)


def llama() -> Made:
    return decoder(2, 2048, 2048, 16, 4, 5632, 2, "plain")


def qwen3() -> Made:
    return decoder(1, 1024, 2048, 16, 8, 6144, 2, "qk")


def gemma() -> Made:
    return decoder(4, 1024, 1536, 8, 4, 6144, 2, "post")


def decode() -> Made:
    """Sixteen sequences, one token each, against a cache of 1,024."""
    hidden, heads, groups, inner, batch, past = 2048, 16, 4, 5632, 16, 1024
    size = hidden // heads
    q, o, gate, up = weight(hidden, hidden), weight(hidden, hidden), weight(inner, hidden), weight(inner, hidden)
    kv, down, n1, n2 = weight(2 * groups * size, hidden), weight(hidden, inner), weight(hidden), weight(hidden)
    cos, sin = angles(1, size)

    def forward(x: Tensor, keys: Tensor, values: Tensor, at: Tensor) -> Tensor:
        h = rms_norm(x, n1)
        key, value = F.linear(h, kv).view(batch, 1, 2, groups, size).transpose(1, 3).unbind(2)
        keys = keys.index_copy(2, at, rotate(key, cos, sin))
        values = values.index_copy(2, at, value)
        query = rotate(heads_of(F.linear(h, q), heads), cos, sin)
        mixed = F.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
        x = x + F.linear(mixed.transpose(1, 2).reshape(x.shape), o)
        h = rms_norm(x, n2)
        return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)

    cache = (batch, groups, past, size)
    x, at = torch.randn(batch, 1, hidden, dtype=BF16), torch.full((1,), past - 1)
    return forward, (x, torch.randn(cache, dtype=BF16), torch.randn(cache, dtype=BF16), at)


def latent_attention() -> Made:
    """DeepSeek's: queries and keys from normalised latents, a part of each head rotated."""
    batch, length, hidden, heads, low, plain, turned = 1, 2048, 2048, 16, 512, 128, 64
    down_q, up_q = weight(768, hidden), weight(heads * (plain + turned), 768)
    down_kv, up_kv = weight(low + turned, hidden), weight(heads * 2 * plain, low)
    out, norm, norm_q, norm_kv = weight(hidden, heads * plain), weight(hidden), weight(768), weight(low)
    cos, sin = angles(length, turned)

    def forward(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = rms_norm(x, norm)
        q = heads_of(F.linear(rms_norm(F.linear(h, down_q), norm_q), up_q), heads)
        latent, key = F.linear(h, down_kv).split((low, turned), dim=-1)
        k, v = heads_of(F.linear(rms_norm(latent, norm_kv), up_kv), heads).chunk(2, dim=-1)
        q1, q2 = q.split((plain, turned), dim=-1)
        key = rotate(key.unsqueeze(1), cos, sin).expand(batch, heads, length, turned)
        query = torch.cat((q1, rotate(q2, cos, sin)), dim=-1)
        scores = F.scaled_dot_product_attention(
            query, torch.cat((k, key), dim=-1), F.pad(v, (0, turned)), is_causal=True
        )
        mixed = scores[..., :plain].transpose(1, 2).reshape(batch, length, heads * plain)
        return x + F.linear(mixed, out)

    return forward, (torch.randn(batch, length, hidden, dtype=BF16), cos, sin)


def experts() -> Made:
    """Mixture of experts as Mixtral and Qwen3-MoE route: two of eight, gathered, weighted and summed."""
    tokens, hidden, inner, count = 4096, 1024, 1792, 8
    router, norm = weight(count, hidden), weight(hidden)
    first, second = weight(count, hidden, 2 * inner), weight(count, inner, hidden)

    def forward(x: Tensor) -> Tensor:
        h = rms_norm(x, norm)
        weights, chosen = torch.topk(torch.softmax(F.linear(h, router).float(), dim=-1), 2, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
        order = chosen.flatten().argsort(stable=True)
        taken = h[order // 2].view(count, -1, hidden)
        gate, up = torch.bmm(taken, first).chunk(2, dim=-1)
        out = torch.bmm(F.silu(gate) * up, second).view(-1, hidden)
        back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
        return x + (out[back].view(tokens, 2, hidden) * weights.unsqueeze(-1)).sum(dim=1)

    return forward, (torch.randn(tokens, hidden, dtype=BF16),)


def bert() -> Made:
    """Two layers of BERT: norms after each part, biases, GELU."""
    batch, length, hidden, heads, inner = 16, 512, 768, 12, 3072
    layers = [
        [
            (weight(n, m), 0.1 * weight(n))
            for n, m in ((3 * hidden, hidden), (hidden, hidden), (inner, hidden), (hidden, inner))
        ]
        for _ in range(2)
    ]
    norms = [(1 + 0.1 * weight(hidden), 0.1 * weight(hidden)) for _ in range(4)]

    def forward(x: Tensor) -> Tensor:
        for number, (qkv, out, up, down) in enumerate(layers):
            q, k, v = (heads_of(part, heads) for part in F.linear(x, *qkv).chunk(3, dim=-1))
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = F.layer_norm(x + F.linear(mixed, *out), (hidden,), *norms[2 * number])
            x = F.layer_norm(x + F.linear(F.gelu(F.linear(x, *up)), *down), (hidden,), *norms[2 * number + 1])
        return x

    return forward, (torch.randn(batch, length, hidden, dtype=BF16),)


def t5() -> Made:
    """Attention of T5: scores with a learned bias, softmax in float32, no scale."""
    batch, length, hidden, heads, inner = 8, 512, 512, 8, 2048
    qkv, out, norm, last = weight(3 * hidden, hidden), weight(hidden, hidden), weight(hidden), weight(hidden)
    table, up, down = weight(32, heads), weight(inner, hidden), weight(hidden, inner)

    def forward(x: Tensor, mask: Tensor) -> Tensor:
        at = torch.arange(length, device=x.device)
        bucket = (at[None] - at[:, None]).abs().clamp(max=31)
        bias = F.embedding(bucket, table).permute(2, 0, 1)[None] + (1 - mask[:, None, None].to(x.dtype)) * -1e4
        q, k, v = (heads_of(part, heads) for part in F.linear(rms_norm(x, norm), qkv).chunk(3, dim=-1))
        scores = torch.softmax((q @ k.transpose(-1, -2) + bias).float(), dim=-1).to(x.dtype)
        x = x + F.linear((scores @ v).transpose(1, 2).reshape(x.shape), out)
        return x + F.linear(F.relu(F.linear(rms_norm(x, last), up)), down)

    return forward, (torch.randn(batch, length, hidden, dtype=BF16), torch.ones(batch, length, dtype=torch.int64))


def mamba() -> Made:
    """Mamba 2's chunked scan in plain operations: cumulated decays, products within and between chunks."""
    batch, chunks, chunk, heads, size, state = 4, 8, 128, 16, 64, 64
    hidden = heads * size
    into, out = weight(2 * hidden + 2 * state + heads, hidden), weight(hidden, hidden)
    rate, norm, kernel = torch.rand(heads), weight(hidden), weight(hidden, 1, 4)

    def decay(x: Tensor) -> Tensor:
        summed = x.cumsum(-1)
        return torch.exp((summed[..., :, None] - summed[..., None, :]).tril()).tril()

    def forward(x: Tensor) -> Tensor:
        z, u, b, c, dt = F.linear(x, into).split((hidden, hidden, state, state, heads), dim=-1)
        u = F.silu(F.conv1d(u.transpose(1, 2), kernel, padding=3, groups=hidden)[..., : x.shape[1]].transpose(1, 2))
        dt = F.softplus(dt.float())
        u = (u.view(batch, chunks, chunk, heads, size) * dt.view(batch, chunks, chunk, heads, 1)).to(BF16)
        b, c = b.view(batch, chunks, chunk, state), c.view(batch, chunks, chunk, state)
        a = (dt * -rate.exp()).view(batch, chunks, chunk, heads).permute(0, 3, 1, 2)
        within = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c.float(), b.float(), decay(a), u.float())
        summed = a.cumsum(-1)
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", b.float(), torch.exp(summed[..., -1:] - summed), u.float())
        carried = torch.einsum("bhzc,bchpn->bzhpn", decay(F.pad(summed[..., -1], (1, 0)))[..., 1:, :-1], states)
        between = torch.einsum("bcln,bchpn,bhcl->bclhp", c.float(), carried, torch.exp(summed))
        y = (within + between).reshape(x.shape).to(BF16) + u.reshape(x.shape)
        return x + F.linear(rms_norm(y * F.silu(z), norm), out)

    return forward, (torch.randn(batch, chunks * chunk, hidden, dtype=BF16),)


def resnet() -> Made:
    """Two bottlenecks of ResNet-50, inference."""
    sizes = [((64, 256, 1, 1), 0), ((64, 64, 3, 3), 1), ((256, 64, 1, 1), 0)] * 2
    convs = [(torch.randn(*size, dtype=BF16) / math.sqrt(size[1] * size[2] * size[3]), pad) for size, pad in sizes]
    norms = [[torch.rand(size[0], dtype=BF16) + 0.5 for _ in range(4)] for size, _ in sizes]

    def forward(x: Tensor) -> Tensor:
        for block in range(2):
            h = x
            for number in range(3 * block, 3 * block + 3):
                kernel, pad = convs[number]
                mean, var, w, b = norms[number]
                h = F.batch_norm(F.conv2d(h, kernel, padding=pad), mean, var, w, b)
                h = F.relu(h + x if number % 3 == 2 else h)
            x = h
        return x

    return forward, (torch.randn(16, 256, 56, 56, dtype=BF16),)


def convnext() -> Made:
    """Two blocks of ConvNeXt: depthwise convolution, norm over channels, GELU, a scale."""
    width = 192
    blocks = [
        (
            torch.randn(width, 1, 7, 7, dtype=BF16) / 7,
            weight(width),
            weight(width),
            weight(4 * width, width),
            weight(width, 4 * width),
            weight(width),
        )
        for _ in range(2)
    ]

    def forward(x: Tensor) -> Tensor:
        for depthwise, w, b, up, down, scale in blocks:
            h = F.conv2d(x, depthwise, padding=3, groups=width).permute(0, 2, 3, 1)
            h = F.linear(F.gelu(F.linear(F.layer_norm(h, (width,), w, b), up)), down) * scale
            x = x + h.permute(0, 3, 1, 2)
        return x

    return forward, (torch.randn(16, width, 28, 28, dtype=BF16),)


def diffusion_transformer() -> Made:
    """A block of Flux or SD3: norms without weights, modulated by the time step; a gate on each residual."""
    batch, length, hidden, heads = 2, 2048, 1536, 24
    modulation, qkv, out = weight(6 * hidden, hidden), weight(3 * hidden, hidden), weight(hidden, hidden)
    up, down, nq, nk = (
        weight(4 * hidden, hidden),
        weight(hidden, 4 * hidden),
        weight(hidden // heads),
        weight(hidden // heads),
    )

    def forward(x: Tensor, time: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = F.linear(F.silu(time), modulation)[:, None].chunk(6, dim=-1)
        h = F.layer_norm(x, (hidden,)) * (1 + scale1) + shift1
        q, k, v = (heads_of(part, heads) for part in F.linear(h, qkv).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(rms_norm(q, nq), rms_norm(k, nk), v)
        x = x + gate1 * F.linear(mixed.transpose(1, 2).reshape(x.shape), out)
        h = F.layer_norm(x, (hidden,)) * (1 + scale2) + shift2
        return x + gate2 * F.linear(F.gelu(F.linear(h, up), approximate="tanh"), down)

    return forward, (torch.randn(batch, length, hidden, dtype=BF16), torch.randn(batch, hidden, dtype=BF16))


def unet() -> Made:
    """A residual block of Stable Diffusion's UNet: group norms, SiLU, convolutions, the time step."""
    first, second = torch.randn(320, 320, 3, 3, dtype=BF16) / 54, torch.randn(320, 320, 3, 3, dtype=BF16) / 54
    w1, b1, w2, b2, time = weight(320), weight(320), weight(320), weight(320), weight(320, 1280)

    def forward(x: Tensor, t: Tensor) -> Tensor:
        h = (
            F.conv2d(F.silu(F.group_norm(x, 32, w1, b1)), first, padding=1)
            + F.linear(F.silu(t), time)[:, :, None, None]
        )
        return x + F.conv2d(F.silu(F.group_norm(h, 32, w2, b2)), second, padding=1)

    return forward, (torch.randn(4, 320, 64, 64, dtype=BF16), torch.randn(4, 1280, dtype=BF16))


def swin() -> Made:
    """A shifted window of Swin: roll, partition, attention with a bias, back."""
    batch, side, width, heads, window = 8, 56, 128, 4, 7
    qkv, out, w, b, bias = (
        weight(3 * width, width),
        weight(width, width),
        weight(width),
        weight(width),
        weight(1, heads, 49, 49),
    )
    up, down = weight(4 * width, width), weight(width, 4 * width)

    def forward(x: Tensor) -> Tensor:
        h = F.layer_norm(x, (width,), w, b).roll((-3, -3), (1, 2))
        parts = side // window
        h = h.view(batch, parts, window, parts, window, width).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, width)
        q, k, v = (heads_of(part, heads) for part in F.linear(h, qkv).chunk(3, dim=-1))
        scores = torch.softmax(q @ k.transpose(-1, -2) * 0.18 + bias, dim=-1)
        h = F.linear((scores @ v).transpose(1, 2).reshape(-1, 49, width), out)
        h = h.view(batch, parts, parts, window, window, width).permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
        x = x + h.roll((3, 3), (1, 2))
        return x + F.linear(F.gelu(F.linear(F.layer_norm(x, (width,), b, w), up)), down)

    return forward, (torch.randn(batch, side, side, width, dtype=BF16),)


def recommender() -> Made:
    """DLRM: gathered embeddings, products of pairs, a small network."""
    batch, tables, width = 8192, 26, 64
    embedding, first, second = weight(tables, 10_000, width), weight(width, 13), weight(512, width + 351)
    last = weight(1, 512)
    rows, columns = torch.tril_indices(tables + 1, tables + 1, offset=-1)

    def forward(dense: Tensor, ids: Tensor) -> Tensor:
        x = F.relu(F.linear(dense, first))
        taken = embedding[torch.arange(tables, device=ids.device), ids]
        every = torch.cat((x[:, None], taken), dim=1)
        pairs = torch.bmm(every, every.transpose(1, 2))[:, rows, columns]
        return torch.sigmoid(F.linear(F.relu(F.linear(torch.cat((x, pairs), dim=1), second)), last))

    return forward, (torch.randn(batch, 13, dtype=BF16), torch.randint(0, 10_000, (batch, tables)))


def loss() -> Made:
    """Norm, logits, a soft cap, cross entropy and a penalty on its normaliser."""
    tokens, hidden, classes = 2048, 1024, 32_000
    norm, head = weight(hidden), weight(classes, hidden)

    def forward(x: Tensor, target: Tensor) -> Tensor:
        logits = 30 * torch.tanh(F.linear(rms_norm(x, norm), head).float() / 30)
        return F.cross_entropy(logits, target) + 1e-4 * logits.logsumexp(-1).pow(2).mean()

    return forward, (torch.randn(tokens, hidden, dtype=BF16), torch.randint(0, classes, (tokens,)))


def optimizer() -> Made:
    """A step of AdamW on twelve tensors, with the gradients' norm clipped."""
    sizes = [(1024, 1024), (1024,), (4096, 1024), (1024, 4096), (1024,), (1024,)] * 2

    def forward(*tensors: Tensor) -> list[Tensor]:
        count = len(sizes)
        ps, gs, ms, vs = (tensors[number * count : (number + 1) * count] for number in range(4))
        norm = torch.stack([g.float().pow(2).sum() for g in gs]).sum().sqrt()
        scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        results = []
        for p, g, m, v in zip(ps, gs, ms, vs, strict=True):
            g = g.float() * scale
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            results += [(p * 0.999 - 1e-3 * m / (v.sqrt() + 1e-8)), m, v]
        return results

    return forward, tuple(torch.rand(*size) for _ in range(4) for size in sizes)


def phi() -> Made:
    """Two layers with attention and network side by side, as Phi and GPT-J have them; norms with biases."""
    batch, length, hidden, heads = 2, 1024, 2560, 32
    layers = [
        {
            "qkv": (weight(3 * hidden, hidden), weight(3 * hidden)),
            "out": (weight(hidden, hidden), weight(hidden)),
            "up": (weight(4 * hidden, hidden), weight(4 * hidden)),
            "down": (weight(hidden, 4 * hidden), weight(hidden)),
            "norm": (1 + weight(hidden), weight(hidden)),
        }
        for _ in range(2)
    ]

    def forward(x: Tensor) -> Tensor:
        for w in layers:
            h = F.layer_norm(x, (x.shape[-1],), *w["norm"])
            q, k, v = (heads_of(part, heads) for part in F.linear(h, *w["qkv"]).chunk(3, dim=-1))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + F.linear(mixed, *w["out"]) + F.linear(F.gelu(F.linear(h, *w["up"])), *w["down"])
        return x

    return forward, (torch.randn(batch, length, hidden, dtype=BF16),)


def whisper() -> Made:
    """The start of Whisper's encoder: two convolutions over the spectrum, positions, a norm, a network."""
    width = 768
    first, second = weight(width, 80, 3), weight(width, width, 3)
    positions, norm, up, down = (
        weight(1500, width),
        1 + weight(width),
        weight(4 * width, width),
        weight(width, 4 * width),
    )

    def forward(x: Tensor) -> Tensor:
        h = F.gelu(F.conv1d(F.gelu(F.conv1d(x, first, padding=1)), second, stride=2, padding=1))
        h = h.transpose(1, 2) + positions
        return h + F.linear(F.gelu(F.linear(F.layer_norm(h, (width,), norm), up)), down)

    return forward, (torch.randn(8, 80, 3000, dtype=BF16),)


def vae_decoder() -> Made:
    """A step of a VAE's decoder: group norm, SiLU, convolution, twice the side by nearest neighbours, again."""
    kernels = [torch.randn(256, 256, 3, 3, dtype=BF16) / 48 for _ in range(2)]
    norms = [(1 + weight(256), weight(256)) for _ in range(2)]

    def forward(x: Tensor) -> Tensor:
        h = F.conv2d(F.silu(F.group_norm(x, 32, *norms[0])), kernels[0], padding=1) + x
        h = F.interpolate(h, scale_factor=2.0, mode="nearest")
        return F.conv2d(F.silu(F.group_norm(h, 32, *norms[1])), kernels[1], padding=1)

    return forward, (torch.randn(1, 256, 128, 128, dtype=BF16),)


def linear_attention() -> Made:
    """Gated linear attention in chunks: decays, products of states, a norm of each head, a gate."""
    batch, heads, chunks, chunk, size = 2, 16, 16, 64, 128
    norm = 1 + weight(size)

    def forward(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, gate: Tensor) -> Tensor:
        summed = F.logsigmoid(decay).cumsum(-1)
        q = q * summed.exp()[..., None]
        k = k * (-summed).exp()[..., None]
        scores = (q @ k.transpose(-1, -2)).tril()
        states = (k.transpose(-1, -2) @ v).cumsum(2)
        out = scores @ v + q @ F.pad(states, (0, 0, 0, 0, 1, 0))[:, :, :-1]
        return rms_norm(out, norm) * F.silu(gate)

    shape = (batch, heads, chunks, chunk)
    tensors = [torch.randn(*shape, size, dtype=BF16) for _ in range(3)]
    return forward, (*tensors, torch.randn(*shape), torch.randn(*shape, size, dtype=BF16))


def layer_scale_mlp() -> Made:
    """Three residual networks with a scale each, as in CaiT and DINO, in float32."""
    width, tokens = 384, 16_384
    blocks = [
        tuple(
            weight(*size, dtype=torch.float32)
            for size in ((width,), (width,), (4 * width, width), (width, 4 * width), (width,))
        )
        for _ in range(3)
    ]

    def forward(x: Tensor) -> Tensor:
        for w, b, up, down, scale in blocks:
            x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (width,), w, b), up)), down) * scale
        return x

    return forward, (torch.randn(tokens, width),)


#: Those that the model of time was made on.
FITTED = (
    qwen3, resnet, convnext, diffusion_transformer, recommender, gemma, loss, unet, swin, optimizer, mamba,
)  # fmt: skip
#: Those that it is reported on.
OTHERS = (
    experts, decode, latent_attention, llama, bert, t5, phi, whisper, vae_decoder, linear_attention, layer_scale_mlp,
)  # fmt: skip
BLOCKS: dict[str, Callable[[], Made]] = {function.__name__: function for function in (*FITTED, *OTHERS)}
