"""Tiny checkpoints of real architectures, 0.5–4.5 MB each: DeepSeek-V2, DeepSeek-V3 and an EAGLE-3 draft.

Runs with the kit's own interpreter (it needs torch): `python tiny_models.py DIR` writes all with random weights.
`wired_pair.py` puts weights with a meaning into the same shapes.
Eight layers, so that EAGLE-3's capture layers 2, L/2 and L-3 differ; every width divides by 16, also halved (TP=2).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCAB, HIDDEN, LAYERS = 320, 128, 8
DRAFT_VOCAB = 128
DTYPE = torch.bfloat16
SPECIALS = ["<|bos|>", "<|eos|>", "<|pad|>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
COMMON = {
    "hidden_size": HIDDEN,
    "vocab_size": VOCAB,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
}
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Checkpoint:
    config: dict[str, object]
    tensors: Tensors


class Weights:
    """Random weights from one seeded generator: the same checkpoint on every machine."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def random(self, *shape: int, std: float = 0.05) -> torch.Tensor:
        return (torch.randn(*shape, generator=self.generator) * std).to(DTYPE)

    def mlp(self, prefix: str, width: int) -> Tensors:
        return {
            prefix + "gate_proj.weight": self.random(width, HIDDEN),
            prefix + "up_proj.weight": self.random(width, HIDDEN),
            prefix + "down_proj.weight": self.random(HIDDEN, width),
        }


def ones(n: int) -> torch.Tensor:
    return torch.ones(n, dtype=DTYPE)


# --- DeepSeek: MLA and MoE --------------------------------------------------------------------------------------------

HEADS, Q_RANK, KV_RANK, NOPE, ROPE, V_DIM = 4, 64, 64, 32, 32, 32
DENSE_WIDTH, EXPERT_WIDTH, EXPERTS, DENSE_LAYERS = 256, 64, 8, 1


def _mla(weights: Weights, prefix: str) -> Tensors:
    return {
        prefix + "q_a_proj.weight": weights.random(Q_RANK, HIDDEN),
        prefix + "q_a_layernorm.weight": ones(Q_RANK),
        prefix + "q_b_proj.weight": weights.random(HEADS * (NOPE + ROPE), Q_RANK),
        prefix + "kv_a_proj_with_mqa.weight": weights.random(KV_RANK + ROPE, HIDDEN),
        prefix + "kv_a_layernorm.weight": ones(KV_RANK),
        prefix + "kv_b_proj.weight": weights.random(HEADS * (NOPE + V_DIM), KV_RANK),
        prefix + "o_proj.weight": weights.random(HIDDEN, HEADS * V_DIM),
    }


def _moe(weights: Weights, prefix: str, *, v3: bool) -> Tensors:
    tensors = {prefix + "gate.weight": weights.random(EXPERTS, HIDDEN)}
    if v3:
        tensors[prefix + "gate.e_score_correction_bias"] = torch.zeros(EXPERTS, dtype=torch.float32)
    for expert in range(EXPERTS):
        tensors |= weights.mlp(f"{prefix}experts.{expert}.", EXPERT_WIDTH)
    return tensors | weights.mlp(prefix + "shared_experts.", EXPERT_WIDTH)


def _deepseek_config(*, v3: bool) -> dict[str, object]:
    router = (
        {"topk_method": "noaux_tc", "scoring_func": "sigmoid"}
        if v3
        else {"topk_method": "group_limited_greedy", "scoring_func": "softmax"}
    )
    return {
        "architectures": ["DeepseekV3ForCausalLM" if v3 else "DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v3" if v3 else "deepseek_v2",
        **COMMON,
        **{"intermediate_size": DENSE_WIDTH, "moe_intermediate_size": EXPERT_WIDTH, "num_hidden_layers": LAYERS},
        **{"num_attention_heads": HEADS, "num_key_value_heads": HEADS, "attention_bias": False},
        **{"n_shared_experts": 1, "n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "moe_layer_freq": 1},
        **{"first_k_dense_replace": DENSE_LAYERS, "norm_topk_prob": True, "routed_scaling_factor": 1.0},
        **{"kv_lora_rank": KV_RANK, "q_lora_rank": Q_RANK, "v_head_dim": V_DIM},
        **{"qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE},
        **{"n_group": 2, "topk_group": 1, "ep_size": 1, "pretraining_tp": 1, "aux_loss_alpha": 0.001, "seq_aux": True},
        # SGLang's rope on a CPU asserts that rope_scaling is set (0.5.20–0.5.23).
        "rope_scaling": {
            **{"type": "yarn", "factor": 4, "original_max_position_embeddings": 512},
            **{"beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
        },
        **router,
    }


def deepseek(weights: Weights, *, v3: bool) -> Checkpoint:
    tensors = {"model.embed_tokens.weight": weights.random(VOCAB, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors |= {prefix + "input_layernorm.weight": ones(HIDDEN)}
        tensors |= {prefix + "post_attention_layernorm.weight": ones(HIDDEN)}
        tensors |= _mla(weights, prefix + "self_attn.")
        dense = layer < DENSE_LAYERS
        tensors |= weights.mlp(prefix + "mlp.", DENSE_WIDTH) if dense else _moe(weights, prefix + "mlp.", v3=v3)
    tensors |= {"model.norm.weight": ones(HIDDEN), "lm_head.weight": weights.random(VOCAB, HIDDEN)}
    return Checkpoint(_deepseek_config(v3=v3), tensors)


# --- EAGLE-3 draft ----------------------------------------------------------------------------------------------------

DRAFT_HEADS, DRAFT_KV_HEADS, DRAFT_HEAD_DIM, DRAFT_WIDTH = 4, 2, 32, 256


def _draft_config() -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **COMMON,
        **{"intermediate_size": DRAFT_WIDTH, "num_hidden_layers": 1, "head_dim": DRAFT_HEAD_DIM},
        **{"num_attention_heads": DRAFT_HEADS, "num_key_value_heads": DRAFT_KV_HEADS},
        **{"draft_vocab_size": DRAFT_VOCAB, "target_hidden_size": HIDDEN},
    }


def eagle3(weights: Weights) -> Checkpoint:
    layer, width, kv_width = "midlayer.", DRAFT_HEADS * DRAFT_HEAD_DIM, DRAFT_KV_HEADS * DRAFT_HEAD_DIM
    target_ids = torch.arange(DRAFT_VOCAB) * 2  # draft token i is target token 2 * i
    in_draft = torch.zeros(VOCAB, dtype=torch.bool)
    in_draft[target_ids] = True
    tensors = {
        "fc.weight": weights.random(HIDDEN, 3 * HIDDEN),
        "norm.weight": ones(HIDDEN),
        "lm_head.weight": weights.random(DRAFT_VOCAB, HIDDEN),
        layer + "input_layernorm.weight": ones(HIDDEN),
        layer + "hidden_norm.weight": ones(HIDDEN),
        layer + "post_attention_layernorm.weight": ones(HIDDEN),
        layer + "self_attn.q_proj.weight": weights.random(width, 2 * HIDDEN),
        layer + "self_attn.k_proj.weight": weights.random(kv_width, 2 * HIDDEN),
        layer + "self_attn.v_proj.weight": weights.random(kv_width, 2 * HIDDEN),
        layer + "self_attn.o_proj.weight": weights.random(HIDDEN, width),
        **weights.mlp(layer + "mlp.", DRAFT_WIDTH),
        "d2t": (target_ids - torch.arange(DRAFT_VOCAB)).to(torch.int64),
        "t2d": in_draft,
    }
    return Checkpoint(_draft_config(), tensors)


# --- on disk ----------------------------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def write_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer of 261 tokens, with a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(SPECIALS + alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokens = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 2048, "chat_template": CHAT_TEMPLATE}
    write_json(folder / "tokenizer_config.json", settings | tokens | {"clean_up_tokenization_spaces": False})
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    write_json(folder / "generation_config.json", ids | {"do_sample": False})


def write_target(folder: Path, checkpoint: Checkpoint, *, shards: int = 2) -> None:
    """A sharded checkpoint with an index and a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", checkpoint.config)
    write_tokenizer(folder)
    names = list(checkpoint.tensors)
    per_shard = -(-len(names) // shards)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: checkpoint.tensors[n] for n in names[shard * per_shard : (shard + 1) * per_shard]}
        save_file(part, str(folder / file), metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    size = sum(t.numel() * t.element_size() for t in checkpoint.tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)


def write_draft(folder: Path, checkpoint: Checkpoint) -> None:
    """One file, no tokenizer: a draft uses its target's."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", checkpoint.config)
    save_file(checkpoint.tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def main(root: Path) -> None:
    weights = Weights()
    write_target(root / "deepseek_v2", deepseek(weights, v3=False))
    write_target(root / "deepseek_v3", deepseek(weights, v3=True))
    write_draft(root / "eagle3", eagle3(weights))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
