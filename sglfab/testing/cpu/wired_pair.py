"""A closed-form DeepSeek-V3 target and EAGLE-3 draft that agree ONLY when the right layers arrive in the right slots.

Runs with the kit's own interpreter: `python wired_pair.py DIR` writes DIR/deepseek_v3 and DIR/eagle3 (2.6 s, no
training). Token index t lives in Z_105 (105 = 3·5·7) under a relabelling, and the next token is t + 1. The target keeps
codes of t mod 3, 5 and 7 in a store S, and uses a scratch region R that holds the code of t mod 3 on entry of layer 2,
mod 5 on entry of layer 4, mod 7 on entry of layer 5, and junk elsewhere. The draft's fc reads only R, one code a slot;
by the Chinese remainder theorem it needs all three. Its MLP is the linear map t → t + 1, so its own hidden state steps
on. Neither uses attention (o_proj is noise), the draft no embeddings or positions: faults there do not move acceptance.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import tiny_models as tiny
import torch
from tiny_models import DRAFT_VOCAB, HIDDEN, LAYERS, VOCAB, Checkpoint, Tensors

CYCLE, MODULI = 105, (3, 5, 7)
CODE_WIDTH = 12  # 2 + 4 + 6: a code of t mod n has n - 1 numbers
CONSTANT, CONSTANT_DIM = 2.0, 0
STORE = slice(1, 1 + CODE_WIDTH)
REGION = slice(20, 26)
NOISE = 0.002


def code(n: int, t: torch.Tensor) -> torch.Tensor:
    """Cosines and sines of t mod n: [len(t), n - 1], squared norm (n - 1) / 2."""
    k = torch.arange(1, (n - 1) // 2 + 1).double()
    angle = 2 * math.pi * t.double()[:, None] * k / n
    return torch.stack([angle.cos(), angle.sin()], -1).reshape(len(t), -1)


def rotation(n: int) -> torch.Tensor:
    """code(n, t + 1) = rotation(n) @ code(n, t)."""
    matrix = torch.zeros(n - 1, n - 1, dtype=torch.double)
    for j in range((n - 1) // 2):
        angle = 2 * math.pi * (j + 1) / n
        sin, cos = math.sin(angle), math.cos(angle)
        matrix[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.double)
    return matrix


def region_of(n: int) -> torch.Tensor:
    """The 6 x 12 map that copies the code of t mod n from the store into the region."""
    matrix = torch.zeros(6, CODE_WIDTH, dtype=torch.double)
    offset = {3: 0, 5: 2, 7: 6}[n]
    matrix[: n - 1, offset : offset + n - 1] = torch.eye(n - 1).double()
    return matrix


class Wiring:
    """The relabelling, the codes, and what the region holds on entry of each layer."""

    def __init__(self, seed: int = 7) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.permutation = torch.randperm(VOCAB, generator=self.generator)
        self.cycle = self.permutation[:CYCLE]  # the tokens in order of t
        self.index = torch.arange(VOCAB) % CYCLE
        self.index[self.cycle] = torch.arange(CYCLE)
        self.codes = torch.cat([code(n, torch.arange(CYCLE)) for n in MODULI], 1)
        self.entry = self._entries()

    def _entries(self) -> list[torch.Tensor]:
        random = torch.randn(CODE_WIDTH, CODE_WIDTH, generator=self.generator).double()
        junk = torch.linalg.qr(random)[0][:6]
        a, b, c = junk, -junk, junk.flip(0)
        empty = torch.zeros(6, CODE_WIDTH, dtype=torch.double)
        return [empty, a, region_of(3), b, region_of(5), region_of(7), c, a, b]

    def noise(self, *shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=self.generator) * NOISE).double()

    def linear_mlp(self, matrix: torch.Tensor, *, rms: float, width: int) -> Tensors:
        """Gate, up and down so that down(silu(gate x) · up x) = matrix · (x before the norm)."""
        scale, gate_value = 1 / rms, 3.0
        gate, up, down = self.noise(width, HIDDEN), self.noise(width, HIDDEN), self.noise(HIDDEN, width)
        gate[:, CONSTANT_DIM] += gate_value / (scale * CONSTANT)
        rows = matrix.abs().sum(1).nonzero().flatten()
        up[: len(rows)] += matrix[rows] / (scale * gate_value / (1 + math.exp(-gate_value)))
        down[rows, torch.arange(len(rows))] += 1.0
        return {"gate_proj.weight": gate, "up_proj.weight": up, "down_proj.weight": down}

    def head_row(self, position: int) -> torch.Tensor:
        """The row of the token at that position: it answers to the code of the token before it."""
        return self.codes[(position - 1) % CYCLE]


def _target_layer(wiring: Wiring, layer: int) -> Tensors:
    dense = layer < tiny.DENSE_LAYERS
    matrix = torch.zeros(HIDDEN, HIDDEN, dtype=torch.double)
    matrix[REGION, STORE] = wiring.entry[layer + 1] - wiring.entry[layer]
    power = CONSTANT**2 + 6 + float((wiring.codes @ wiring.entry[layer].T).pow(2).sum(1).mean())
    mlp = f"model.layers.{layer}.mlp."
    width = tiny.DENSE_WIDTH if dense else tiny.EXPERT_WIDTH
    parts = wiring.linear_mlp(matrix, rms=math.sqrt(power / HIDDEN), width=width)
    tensors = {mlp + ("" if dense else "shared_experts.") + name: part for name, part in parts.items()}
    tensors[f"model.layers.{layer}.self_attn.o_proj.weight"] = wiring.noise(HIDDEN, tiny.HEADS * tiny.V_DIM)
    if not dense:
        for expert in range(tiny.EXPERTS):
            tensors[f"{mlp}experts.{expert}.down_proj.weight"] = wiring.noise(HIDDEN, tiny.EXPERT_WIDTH)
    return tensors


def target(wiring: Wiring, plain: Checkpoint) -> Checkpoint:
    embeddings = wiring.noise(VOCAB, HIDDEN)
    embeddings[:, CONSTANT_DIM] += CONSTANT
    embeddings[:, STORE] += wiring.codes[wiring.index]
    tensors = plain.tensors | {"model.embed_tokens.weight": embeddings}
    for layer in range(LAYERS):
        tensors |= _target_layer(wiring, layer)
    head = wiring.noise(VOCAB, HIDDEN)
    head[wiring.cycle, STORE] += wiring.codes[(torch.arange(CYCLE) - 1) % CYCLE]
    tensors["lm_head.weight"] = head
    # The router's correction bias is float32 in every DeepSeek-V3 checkpoint.
    keep = {name for name, t in plain.tensors.items() if t.dtype == torch.float32}
    tensors = {n: (t if n in keep else t.to(tiny.DTYPE)).contiguous() for n, t in tensors.items()}
    return replace(plain, tensors=tensors)


def _draft_fc(wiring: Wiring) -> torch.Tensor:
    fc = wiring.noise(HIDDEN, 3 * HIDDEN)
    fc[CONSTANT_DIM, CONSTANT_DIM] += 1
    row = STORE.start
    for slot, n in enumerate(MODULI):
        for j in range(n - 1):
            fc[row + j, slot * HIDDEN + REGION.start + j] += 1
        row += n - 1
    return fc


def _step() -> torch.Tensor:
    """What the draft's MLP adds to its residual: the code of t + 1 minus the code of t."""
    matrix = torch.zeros(HIDDEN, HIDDEN, dtype=torch.double)
    at = STORE.start
    for n in MODULI:
        matrix[at : at + n - 1, at : at + n - 1] = rotation(n) - torch.eye(n - 1).double()
        at += n - 1
    return matrix


def _draft_head(wiring: Wiring, hot: torch.Tensor) -> torch.Tensor:
    position = {int(token): t for t, token in enumerate(wiring.cycle)}
    head = wiring.noise(DRAFT_VOCAB, HIDDEN)
    for draft_id, token in enumerate(hot.tolist()):
        if token in position:
            head[draft_id, STORE] += wiring.head_row(position[token])
    return head


def draft(wiring: Wiring, plain: Checkpoint) -> Checkpoint:
    hot = torch.sort(torch.cat([wiring.cycle, wiring.permutation[CYCLE:DRAFT_VOCAB]]))[0]
    tensors = plain.tensors | {"fc.weight": _draft_fc(wiring)}
    parts = wiring.linear_mlp(_step(), rms=math.sqrt((CONSTANT**2 + 6) / HIDDEN), width=tiny.DRAFT_WIDTH)
    tensors |= {f"midlayer.mlp.{name}": part for name, part in parts.items()}
    tensors["lm_head.weight"] = _draft_head(wiring, hot)
    tensors["midlayer.self_attn.o_proj.weight"] = wiring.noise(HIDDEN, tiny.DRAFT_HEADS * tiny.DRAFT_HEAD_DIM)
    in_draft = torch.zeros(VOCAB, dtype=torch.bool)
    in_draft[hot] = True
    tensors |= {"d2t": hot - torch.arange(DRAFT_VOCAB), "t2d": in_draft}
    cast = {n: (t.to(tiny.DTYPE) if t.is_floating_point() else t).contiguous() for n, t in tensors.items()}
    return replace(plain, tensors=cast)


def main(root: Path) -> None:
    wiring, weights = Wiring(), tiny.Weights()
    tiny.write_target(root / "deepseek_v3", target(wiring, tiny.deepseek(weights, v3=True)))
    tiny.write_draft(root / "eagle3", draft(wiring, tiny.eagle3(weights)))
    (root / "truth.json").write_text(json.dumps({"cycle": wiring.cycle.tolist()}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
