"""Tiny configurations of the architectures in `mlx_lm.models`, for random weights without downloads.

`COMMON` has a value for each field that architectures share by name; `DIFFERENT` has the special fields of each.
`mlx_lm_worker` uses them in processes where `mlx` is real MLX or mxcompat.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from pathlib import Path
from typing import Any

__all__ = ["SKIPPED", "arguments", "names"]

SKIPPED = {
    "bitnet": "has only a Metal kernel",
    "muse_spark": "has only Metal kernels",
    "olmo": "needs ai2-olmo, which needs NumPy 1",
    "phi3small": "its block-sparse attention makes real MLX crash on a CPU, or corrupts its memory",
    "prism_hadamard_qwen35": "reads packed weights of its own format only",
}
"""Architectures that real MLX cannot run on a CPU, or cannot construct without files, with the reasons."""

_NOT_MODELS = {
    "activations", "base", "bitlinear_layers", "cache", "gated_delta", "mla", "pipeline", "rope_utils", "ssm",
    "switch_layers",
}  # fmt: skip

# fmt: off
COMMON: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "hidden_dim", "n_embd", "d_model", "model_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_transformer_layers"), 2),
    **dict.fromkeys(("intermediate_size", "intermediate_size_mlp", "ffn_hidden_size", "n_inner", "ff_intermediate_size",
                     "block_ff_dim"), 48),
    **dict.fromkeys(("moe_intermediate_size", "expert_ffn_hidden_size", "shared_expert_intermediate_size",
                     "shared_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim"), 24),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head", "n_heads", "num_query_heads",
                     "swa_num_attention_heads", "num_swa_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_kv_heads", "num_attention_groups",
                     "swa_num_key_value_heads", "num_swa_key_value_heads", "num_global_key_value_heads"), 2),
    **dict.fromkeys(("head_dim", "global_head_dim", "hidden_size_per_head", "kv_channels", "swa_head_dim",
                     "swa_v_head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "index_head_dim",
                     "rotary_dim", "hidden_size_per_layer_input"), 8),
    **dict.fromkeys(("vocab_size", "num_vocab", "vocab_size_per_layer_input"), 64),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k",
                     "top_k_experts"), 2),
    **dict.fromkeys(("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts", "n_group",
                     "topk_group", "first_k_dense_replace", "moe_layer_freq", "decoder_sparse_step",
                     "num_dense_layers"), 1),
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon",
                     "layernorm_epsilon"), 1e-5),
    **dict.fromkeys(("rope_theta", "rotary_emb_base", "swa_rope_theta"), 10000.0),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "block_size", "model_max_length"), 128),
    **dict.fromkeys(("attention_bias", "mlp_bias", "use_bias", "use_qkv_bias", "mamba_proj_bias",
                     "tie_word_embeddings"), False),
    **dict.fromkeys(("use_conv_bias", "conv_bias", "mamba_conv_bias", "use_qk_norm", "qk_norm", "post_norm", "qkv_bias",
                     "norm_topk_prob", "use_expert_bias", "linear_allow_neg_eigval"), True),
    **dict.fromkeys(("sliding_window", "sliding_window_size", "window_size", "attention_window_size",
                     "loop_window_size", "index_topk", "mamba_chunk_size"), 4),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "dim_model_base"), 16),
    **dict.fromkeys(("a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim", "decay_low_rank_dim", "o_lora_rank",
                     "state_size", "ssm_state_size", "mamba_d_state", "mamba_head_dim", "mamba_d_head"), 8),
    **dict.fromkeys(("conv_kernel", "mamba_d_conv", "conv1d_width", "time_step_rank", "linear_conv_kernel_dim",
                     "mamba_num_heads", "mamba_n_heads", "linear_num_value_heads"), 4),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "mamba_d_ssm"), 32),
    **dict.fromkeys(("n_groups", "mamba_n_groups", "num_kv_reuse_layers"), 1),
    **dict.fromkeys(("linear_num_key_heads", "index_n_heads", "mamba_expand", "conv_window", "layer_group_size",
                     "group_norm_size", "hc_mult", "o_groups", "num_loops", "loop_num", "sliding_window_pattern"), 2),
    **dict.fromkeys(("num_nextn_predict_layers", "num_kv_shared_layers"), 0),
    **dict.fromkeys(("rotary_pct", "partial_rotary_factor", "residual_multiplier"), 0.5),
    **dict.fromkeys(("routed_scaling_factor", "moe_routed_scaling_factor", "scale_depth"), 1.5),
    **dict.fromkeys(("logits_scaling", "embedding_multiplier", "scale_emb"), 2.0),
    "attention_multiplier": 0.3, "conv_L_cache": 3, "hidden_act": "silu", "logits_soft_cap": 30.0,
    "mlp_only_layers": [], "rope_scaling": None, "scoring_func": "sigmoid", "time_step_limit": (0.001, 100.0),
}

_LOCAL_GLOBAL = {"layer_types": ["sliding_attention", "full_attention"]}
_ROPE = {"rope_theta": 10000.0, "rope_type": "default"}
_ROPES = {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}}
_YARN = {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1,
         "mscale": 1.0, "mscale_all_dim": 1.0}
_LONG = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
_NTK = {"rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}}
_LLAMA_4 = {**_ROPE, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 4}
_QWEN_3_5 = {"full_attention_interval": 2, "rope_parameters": {
    "type": "default", "mrope_section": [1, 1, 0], "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}

DIFFERENT: dict[str, dict[str, Any]] = {
    "afmoe": _LOCAL_GLOBAL,
    "baichuan_m1": {"sliding_window_layers": [1]},
    "bailing_moe_v3": {"num_hidden_layers": 3},
    "dbrx": {"ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2, "moe_jitter_eps": 0,
                            "moe_loss_weight": 0},
             "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0}},
    "deepseek_v2": {"rope_scaling": _YARN},
    "exaone4": {"sliding_window_pattern": "LG"},
    "exaone_moe": {**_LOCAL_GLOBAL, "is_moe_layer": [False, True]},
    "gear": {"layer_types": ["sliding_attention", "conv_mixer"], "query_pre_attn_scalar": 8},
    "gemma2": {"query_pre_attn_scalar": 8.0},
    "gemma3": {"text_config": {"num_hidden_layers": 3, "sliding_window_pattern": 3}},
    "gemma3_text": {"query_pre_attn_scalar": 8.0, "num_key_value_heads": 1},
    "gemma3n": {"text_config": {
        "num_hidden_layers": 4, "intermediate_size": [48] * 4, "num_kv_shared_layers": 2,
        "rope_local_base_freq": 10000.0, "final_logit_softcapping": 30.0,
        "layer_types": _LOCAL_GLOBAL["layer_types"] * 2, "activation_sparsity_pattern": [0.95, 0.0] * 2,
        "altup_num_inputs": 4, "altup_coef_clip": 120.0, "altup_correct_scale": True, "altup_active_idx": 0,
        "laurel_rank": 8}},
    "gemma4_text": _LOCAL_GLOBAL,
    "glm_moe_dsa": {"topk_method": "noaux_tc", "rope_parameters": _ROPE},
    "gpt_oss": _LOCAL_GLOBAL,
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "hunyuan": {"cla_share_factor": 2, "use_cla": True, "use_mixed_mlp_moe": True, **_NTK},
    "hunyuan_v1_dense": _NTK,
    "jamba": {"attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1, "expert_layer_period": 2},
    "kimi_linear": {"linear_attn_config": {"num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4,
                                           "kda_layers": [1], "full_attn_layers": [2]}},
    "laguna": {"layer_types": ["full_attention", "sliding_attention"], **_ROPES},
    "lfm2": {"block_dim": 32, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": True,
             "layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lille-130m": {"n_embd": 256},
    "llama4": {"text_config": {"model_type": "llama4", "attention_chunk_size": 4, "interleave_moe_layer_step": 1,
                               "num_hidden_layers": 4, "num_experts_per_tok": 1}},
    "llama4_text": {"no_rope_layers": [1, 0]},
    "longcat_flash": {"attention_method": "MLA", "zero_expert_type": "identity", "zero_expert_num": 2,
                      "mla_scale_q_lora": True, "mla_scale_kv_lora": True},
    "longcat_flash_ngram": {"zero_expert_num": 2, "mla_scale_q_lora": True, "mla_scale_kv_lora": True,
                            "ngram_vocab_size_ratio": 3, "emb_neighbor_num": 3, "emb_split_num": 2},
    "mamba2": {"num_heads": 8, "intermediate_size": 64},
    "mellum": {**_LOCAL_GLOBAL, **_ROPES},
    "mimo_v2_flash": {"hybrid_layer_pattern": [0, 1], "moe_layer_freq": [0, 1], "add_swa_attention_sink_bias": True,
                      "add_full_attention_sink_bias": False, "topk_method": "noaux_tc"},
    "minicpm3": {"rope_scaling": {**_LONG, "original_max_position_embeddings": 64}},
    "minimax": {"rotary_dim": 4},
    "ministral3": {**_LOCAL_GLOBAL, "rope_parameters": _LLAMA_4},
    "mistral4": {"rope_parameters": {**_LLAMA_4, "mscale_all_dim": 1.0, "factor": 2.0}},
    "muse_glimmer": _LOCAL_GLOBAL,
    "nemotron": {"hidden_act": "relu2"},
    "nemotron-nas": {"block_configs": [
        {"attention": {"n_heads_in_group": 2, "no_op": False, "replace_with_linear": False},
         "ffn": {"ffn_mult": 1.5, "no_op": False, "replace_with_linear": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True, "replace_with_linear": False},
         "ffn": {"ffn_mult": None, "no_op": False, "replace_with_linear": True}}]},
    "nemotron_h": {"hybrid_override_pattern": "M*-E", "num_hidden_layers": 4, "time_step_limit": (0.0, 100.0)},
    "olmo3": _LOCAL_GLOBAL,
    "olmo_hybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "openelm": {"ffn_multipliers": [1.0, 2.0], "ffn_dim_divisor": 8, "num_query_heads": [4, 4], "num_kv_heads": [2, 2]},
    "phimoe": {"rope_scaling": {**_LONG, "short_mscale": 1.0, "long_mscale": 1.2},
               "original_max_position_embeddings": 64},
    "phixtral": {"rotary_dim": 4},
    "plamo": {"n_shared_head": 2},
    "plamo2": {"mamba_step": 2},
    "qwen3_5": {"text_config": {**_QWEN_3_5, "model_type": "qwen3_5_text", "num_experts": 0}},
    "qwen3_5_moe": {"text_config": {**_QWEN_3_5, "model_type": "qwen3_5_text"}},
    "qwen3_next": {"full_attention_interval": 2},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"], "num_key_value_heads": 1},
    "rwkv7": {"hidden_size": 64, "head_dim": 16},
    "smollm3": {"no_rope_layer_interval": 2},
    "spark2_5": {**_LOCAL_GLOBAL, **_ROPES, "hidden_act": "gelu"},
    "step3p5": {"layer_types": ["full_attention", "sliding_attention"], "moe_layers_enum": "1",
                "attention_other_setting": {"num_attention_heads": 4, "num_attention_groups": 2}},
}

_TEXT_MODEL = {
    "gemma3": "gemma3_text", "gemma4": "gemma4_text", "kimi_k25": "deepseek_v3", "kimi_k3": "kimi_linear",
    "kimi_vl": "deepseek_v3", "lfm2-vl": "lfm2", "minimax_m3_vl": "minimax", "mistral3": "ministral3",
    "pixtral": "llama", "qwen2_vl": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe",
    "qwen3_5_moe": "qwen3_5",
}
"""The wrapped text model of each multimodal architecture."""
# fmt: on


def names() -> list[str]:
    """Return the architectures that can be run; none without mlx-lm."""
    spec = importlib.util.find_spec("mlx_lm")
    folders = spec.submodule_search_locations if spec else []
    files = [f for folder in folders or [] for f in Path(folder, "models").glob("[!_]*.py")]
    return sorted({f.stem for f in files} - _NOT_MODELS - set(SKIPPED))


def arguments(name: str, **different: Any) -> Any:
    """Return the `ModelArgs` of an architecture, tiny, with the given fields changed."""
    module = importlib.import_module(f"mlx_lm.models.{name}")
    options = _common(module.ModelArgs, name)
    own = {**DIFFERENT.get(name, {}), **different}
    if any(f.name == "text_config" for f in dataclasses.fields(module.ModelArgs)):
        own["text_config"] = {**_text(_TEXT_MODEL.get(name, name)), **own.get("text_config", {})}
    return module.ModelArgs.from_dict({**options, **own})


def _common(kind: type, name: str) -> dict[str, Any]:
    return {"model_type": name, **{f.name: COMMON[f.name] for f in dataclasses.fields(kind) if f.name in COMMON}}


def _text(name: str) -> dict[str, Any]:
    module = importlib.import_module(f"mlx_lm.models.{name}")
    kinds = (getattr(module, k, None) for k in ("TextModelArgs", "TextArgs", "TextConfig", "ModelArgs"))
    own = {k: v for k, v in DIFFERENT.get(name, {}).items() if k != "text_config"}
    return {**_common(next(k for k in kinds if k), name), **own}
