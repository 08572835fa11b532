#!/usr/bin/env python3
"""Writes tests/reference/models_extra: tiny models of the native families that differ in one aspect each,
with the answers of transformers. Needs torch and transformers. Not part of the build.

usage: make_reference_models.py [NAME ...]      (all without a name)
       make_reference_models.py --half          (only half_precision.json, for the existing models)

half_precision.json has the answers of some of the models with weights and computation in float16 and bfloat16.
Every directory has config.json, model.safetensors and expected.json:
  input_ids, labels   two rows; some labels are -100
  attention_mask, position_ids   if the model is called with them
  loss, counted       mean over the counted labels, and their number
  balance             load-balancing loss of every layer with experts, if requested
  logits              sum, abs_sum, and all logits of the last token of every row
  grad_norms          of every parameter, after a backward from that loss
"""
import copy
import json
import pathlib
import sys
import tempfile

import safetensors.torch
import torch
import transformers
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Olmo2Config,
    OlmoeConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
    Starcoder2Config,
)

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "reference" / "models_extra"

LLAMA = dict(
    vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=4, max_position_embeddings=64, initializer_range=0.08, bos_token_id=1, eos_token_id=2,
    use_cache=False, tie_word_embeddings=False,
)
GPT2 = dict(
    vocab_size=40, n_embd=24, n_layer=2, n_head=4, n_positions=32, initializer_range=0.08, bos_token_id=1,
    eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
)


def default_rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


def to_old_keys(config):
    """Converts to the keys of transformers 4: rope_theta and rope_scaling at the top, torch_dtype, no
    head_dim."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    for key in ("head_dim", "num_key_value_heads", "attention_bias", "mlp_bias"):
        config.pop(key)


def left_padded(ids):
    """The first row has 5 tokens of padding on the left; the second has none."""
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    return {"attention_mask": mask}


def packed(ids):
    """The first row has documents of 3, 5 and the remaining tokens; the second of 7 and the remaining tokens."""
    positions = torch.arange(ids.shape[1]).repeat(2, 1)
    positions[0, 3:] -= 3
    positions[0, 8:] -= 5
    positions[1, 7:] -= 7
    return {"position_ids": positions}


def left_padded_with_positions(ids):
    given = left_padded(ids)
    given["position_ids"] = (given["attention_mask"].cumsum(-1) - 1).clamp(min=1)
    return given


def far(ids):
    """Each row is one document that starts at a position other than 0. No mask is needed."""
    return {"position_ids": torch.arange(ids.shape[1]).repeat(2, 1) + torch.tensor([[3], [50]])}


def to_old_gemma3_keys(config):
    """Converts to the keys of transformers 4: one theta per kind of layer, and the period of the full ones."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope["full_attention"].pop("rope_theta")
    config["rope_local_base_freq"] = rope["sliding_attention"].pop("rope_theta")
    config["rope_scaling"] = rope["full_attention"]
    config["sliding_window_pattern"] = config.pop("_sliding_window_pattern", 3)
    config.pop("layer_types")


def to_gemma3_keys_with_a_length(config):
    """The same, with the original length outside the rope settings, where this family ignores it."""
    to_old_gemma3_keys(config)
    config["rope_scaling"].pop("original_max_position_embeddings")
    config["original_max_position_embeddings"] = 8


def gemma(cls, **changes):
    given = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}
    return cls(**{**given, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 3, "query_pre_attn_scalar": 12,
                  **changes})


def qwen(cls, **changes):
    return cls(**{**LLAMA, "num_key_value_heads": 2, **changes})


# name -> configuration, sequence lengths, change of the written config.json, further inputs. The models with
# a fourth entry use attention "sdpa", which agrees with sluice, or "eager" if the family has no other.
MODELS = {
    "grouped_query": (LlamaConfig(**{**LLAMA, "hidden_size": 32, "num_attention_heads": 8, "num_key_value_heads": 2}), 12, None),
    "one_key_value_head": (LlamaConfig(**{**LLAMA, "num_key_value_heads": 1}), 12, None),
    "wide_heads": (LlamaConfig(**{**LLAMA, "num_key_value_heads": 2, "head_dim": 10}), 12, None),
    "biases": (LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True), 12, None),
    "linear_rope": (LlamaConfig(**LLAMA, rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}), 24, None),
    # With an original context of 32, the channel pairs of a head of 16 lie below, between and above the two
    # wavelengths.
    "llama3_rope": (
        LlamaConfig(**{**LLAMA, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16},
                    rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                                     "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
        48, None),
    "tied_with_padding": (LlamaConfig(**{**LLAMA, "tie_word_embeddings": True}, pad_token_id=3), 12, None),
    "old_keys": (LlamaConfig(**LLAMA, rope_parameters={"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}), 12, to_old_keys),
    "gpt2_untied_inner": (GPT2Config(**GPT2, n_inner=40, tie_word_embeddings=False), 12, None),
    "gpt2_full_length": (GPT2Config(**GPT2), 32, None),
    "qwen2": (Qwen2Config(**{**LLAMA, "num_key_value_heads": 2}), 12, None),
    "qwen2_tied": (Qwen2Config(**{**LLAMA, "tie_word_embeddings": True}), 12, None),
    "llama_left_padded": (LlamaConfig(**{**LLAMA, "num_key_value_heads": 2}), 12, None, left_padded),
    "llama_packed": (LlamaConfig(**{**LLAMA, "num_key_value_heads": 2}), 14, None, packed),
    "llama_padded_positions": (LlamaConfig(**LLAMA), 12, None, left_padded_with_positions),
    "llama_far": (LlamaConfig(**LLAMA), 12, None, far),
    "llama_gelu": (LlamaConfig(**LLAMA, hidden_act="gelu"), 12, None, None),
    "llama_relu": (LlamaConfig(**LLAMA, hidden_act="relu"), 12, None, None),
    "gpt2_left_padded": (GPT2Config(**GPT2), 12, None, left_padded),
    "gpt2_packed": (GPT2Config(**GPT2), 14, None, packed),
    "mistral": (MistralConfig(**{**LLAMA, "num_key_value_heads": 2}, sliding_window=5), 14, None, None),
    "mistral_no_window": (MistralConfig(**{**LLAMA, "num_key_value_heads": 1, "head_dim": 10}, sliding_window=None), 12, None, None),
    "mistral_packed": (MistralConfig(**{**LLAMA, "num_key_value_heads": 2}, sliding_window=4), 14, None, packed),
    "mistral_left_padded": (MistralConfig(**LLAMA, sliding_window=4), 12, None, left_padded),
    "mistral_wide_window": (MistralConfig(**LLAMA, sliding_window=12), 12, None, None),
    "qwen2_windows": (qwen(Qwen2Config, num_hidden_layers=3, use_sliding_window=True, sliding_window=4, max_window_layers=1), 12, None, None),
    "qwen2_layer_types": (
        qwen(Qwen2Config, num_hidden_layers=3, use_sliding_window=True, sliding_window=3,
             layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        14, None, packed),
    "qwen3": (qwen(Qwen3Config, head_dim=8), 12, None, None),
    "qwen3_biases_tied": (qwen(Qwen3Config, head_dim=16, num_attention_heads=2, attention_bias=True, tie_word_embeddings=True), 12, None, left_padded),
    "qwen3_windows": (
        qwen(Qwen3Config, head_dim=8, num_hidden_layers=4, use_sliding_window=True, sliding_window=5,
             layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"]),
        14, None, packed),
    "qwen3_yarn": (
        qwen(Qwen3Config, head_dim=16, num_attention_heads=2,
             rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}),
        40, None, None),
    "llama_yarn": (
        LlamaConfig(**{**LLAMA, "head_dim": 16},
                    rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "beta_fast": 8.0, "beta_slow": 0.5,
                                     "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False,
                                     "original_max_position_embeddings": 24}),
        40, None, None),
    "gemma2": (gemma(Gemma2Config, sliding_window=5, attn_logit_softcapping=2.0, final_logit_softcapping=1.5), 12, None, None),
    "gemma2_no_caps": (
        gemma(Gemma2Config, attn_logit_softcapping=None, final_logit_softcapping=None, sliding_window=4, attention_bias=True,
              pad_token_id=3, tie_word_embeddings=False, hidden_activation="gelu"),
        12, None, left_padded),
    "gemma2_left_padded": (gemma(Gemma2Config, sliding_window=4, head_dim=10, attn_logit_softcapping=1.0), 12, None, left_padded),
    "gemma2_packed": (
        gemma(Gemma2Config, sliding_window=4, attn_logit_softcapping=3.0, num_key_value_heads=1, hidden_activation="relu",
              layer_types=["full_attention", "sliding_attention", "full_attention"]),
        14, None, packed),
    "gemma3": (gemma(Gemma3TextConfig, sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"]), 14, None, None),
    "gemma3_ropes": (
        gemma(Gemma3TextConfig, sliding_window=4, num_hidden_layers=4, sliding_window_pattern=3, final_logit_softcapping=2.0,
              rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 300.0, "factor": 4.0},
                               "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}),
        14, None, packed),
    "gemma3_old_keys": (
        gemma(Gemma3TextConfig, sliding_window=4, num_hidden_layers=4, sliding_window_pattern=3,
              rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 300.0, "factor": 4.0},
                               "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}),
        12, to_old_gemma3_keys, left_padded),
    "gemma3_outer_length": (
        gemma(Gemma3TextConfig, sliding_window=4, sliding_window_pattern=2,
              rope_parameters={"full_attention": {"rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
                               "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}),
        14, to_gemma3_keys_with_a_length, None),
    "olmo2": (Olmo2Config(**{**LLAMA, "num_key_value_heads": 2}), 12, None, None),
    "olmo2_biases": (
        Olmo2Config(**{**LLAMA, "tie_word_embeddings": True}, attention_bias=True, pad_token_id=None,
                    rope_parameters={"rope_type": "default", "rope_theta": 300.0}),
        12, None, left_padded),
    "granite": (
        GraniteConfig(**{**LLAMA, "num_key_value_heads": 2}, embedding_multiplier=6.0, attention_multiplier=0.3,
                      residual_multiplier=0.4, logits_scaling=3.0),
        12, None, None),
    "granite_biases": (
        GraniteConfig(**{**LLAMA, "tie_word_embeddings": True}, attention_bias=True, mlp_bias=True, attention_multiplier=0.05),
        14, None, packed),
    "smollm3": (SmolLM3Config(**{**LLAMA, "num_hidden_layers": 4}, pad_token_id=None), 12, None, None),
    "smollm3_windows": (
        SmolLM3Config(**{**LLAMA, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}, pad_token_id=5,
                      use_sliding_window=True, sliding_window=4, no_rope_layer_interval=2, mlp_bias=True, attention_bias=True),
        12, None, left_padded),
    "smollm3_lists": (
        SmolLM3Config(**{**LLAMA, "num_hidden_layers": 3}, pad_token_id=None, no_rope_layers=[0, 1, 0], use_sliding_window=True,
                      sliding_window=4, layer_types=["full_attention", "sliding_attention", "sliding_attention"]),
        14, None, packed),
}

SPARSE = {**LLAMA, "hidden_size": 16, "intermediate_size": 12, "num_key_value_heads": 2, "initializer_range": 0.15}


def sparse(cls, **changes):
    return cls(**{**SPARSE, **changes})


def qwen3_moe(**changes):
    return sparse(Qwen3MoeConfig, **{"head_dim": 6, "moe_intermediate_size": 8, "num_experts_per_tok": 2, "num_experts": 4, **changes})


def to_num_experts(config):
    """Uses the name that transformers 4 writes."""
    config["num_experts"] = config.pop("num_local_experts")


# Mixture-of-experts models. With output_router_logits the loss is the token loss alone. The gradients are
# those of this loss plus the mean of the layers' load-balancing losses. With a single expert layer this
# equals transformers.
MODELS.update({
    "mixtral": (sparse(MixtralConfig, num_local_experts=4), 12, None, None),
    "mixtral_window": (sparse(MixtralConfig, num_local_experts=5, num_experts_per_tok=2, head_dim=6, sliding_window=5), 14, None, left_padded),
    "mixtral_balance": (sparse(MixtralConfig, num_local_experts=6, num_experts_per_tok=3, output_router_logits=True, router_aux_loss_coef=0.5, tie_word_embeddings=True), 12, None, left_padded),
    "qwen3_moe": (qwen3_moe(), 12, to_num_experts, None),
    "qwen3_moe_some": (
        qwen3_moe(num_hidden_layers=4, num_experts=8, num_experts_per_tok=4, norm_topk_prob=True, decoder_sparse_step=2, mlp_only_layers=[1],
                  output_router_logits=True, router_aux_loss_coef=0.3, use_sliding_window=True, sliding_window=6, attention_bias=True),
        14, None, None),
    "qwen3_moe_packed": (qwen3_moe(num_experts_per_tok=1, tie_word_embeddings=True), 14, None, packed),
    "olmoe": (sparse(OlmoeConfig, num_experts=8, num_experts_per_tok=3), 12, None, None),
    "olmoe_balance": (
        sparse(OlmoeConfig, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, attention_bias=True, pad_token_id=None, num_key_value_heads=4,
               output_router_logits=True, router_aux_loss_coef=0.4),
        12, None, None),
})

NEOX = dict(
    vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=64,
    initializer_range=0.12, bos_token_id=1, eos_token_id=2, use_cache=False,
)
PHI3 = {**LLAMA, "num_key_value_heads": 2, "pad_token_id": None, "initializer_range": 0.12}


def neox_old_keys(config):
    rope = config.pop("rope_parameters")
    config["rotary_emb_base"] = rope["rope_theta"]
    config["rotary_pct"] = rope["partial_rotary_factor"]


def phi3_old_keys(config):
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    rope.pop("original_max_position_embeddings")
    rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = rope


# Frequencies of 3 channel pairs, and an original context of 16.
LONGROPE = {"rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.5, 2.5, 4.0]}

MODELS.update({
    "gpt_neox": (GPTNeoXConfig(**NEOX), 12, neox_old_keys, None),
    "gpt_neox_in_turn": (GPTNeoXConfig(**NEOX, use_parallel_residual=False, attention_bias=False, rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}), 12, None, left_padded),
    "gpt_neox_tied": (GPTNeoXConfig(**NEOX, tie_word_embeddings=True, hidden_act="gelu_new", rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0, "partial_rotary_factor": 1.0}), 14, None, packed),
    "phi3": (Phi3Config(**PHI3), 12, None, None),
    "phi3_window": (Phi3Config(**{**PHI3, "num_key_value_heads": 1, "pad_token_id": 3, "hidden_size": 32}, sliding_window=5, rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5}), 14, None, packed),
    "phi3_short": (Phi3Config(**PHI3, original_max_position_embeddings=16, rope_parameters=LONGROPE), 12, None, left_padded),
    "phi3_long": (Phi3Config(**PHI3, original_max_position_embeddings=16, rope_parameters=LONGROPE), 24, phi3_old_keys, None),
    "phi3_far": (
        Phi3Config(**{**PHI3, "hidden_size": 32, "tie_word_embeddings": True}, original_max_position_embeddings=16,
                   rope_parameters={**LONGROPE, "partial_rotary_factor": 0.75, "attention_factor": 1.2}),
        12, None, far),
})

STARCODER2 = {**LLAMA, "num_key_value_heads": 2, "initializer_range": 0.12}

MODELS.update({
    "starcoder2": (Starcoder2Config(**{**STARCODER2, "tie_word_embeddings": True}), 12, None, left_padded),
    "starcoder2_window": (Starcoder2Config(**{**STARCODER2, "num_key_value_heads": 1, "pad_token_id": 3}, sliding_window=5, use_bias=False, norm_epsilon=1e-3, hidden_act="gelu"), 14, None, packed),
})

HALF = ("grouped_query", "qwen2_tied", "gpt2_untied_inner", "mistral_left_padded", "qwen3_windows", "gemma2", "gemma3_ropes",
        "olmo2", "granite", "smollm3")


def attention_of(name):
    if len(MODELS[name]) == 3 or MODELS[name][0].model_type == "gemma2":
        return "eager"
    return "sdpa"


def norms_as_saved(model):
    """Returns norms of the gradients, by the names and in the shapes of the file."""
    holder = copy.deepcopy(model)
    with torch.no_grad():
        for to, parameter in zip(holder.parameters(), model.parameters()):
            to.copy_(parameter.grad)
    with tempfile.TemporaryDirectory() as directory:
        holder.save_pretrained(directory)
        saved = safetensors.torch.load_file(pathlib.Path(directory) / "model.safetensors")
    return {key: value.double().norm().item() for key, value in saved.items()}


def balance_losses(model, output, given):
    """Returns the load-balancing loss of every layer with experts."""
    function = sys.modules[type(model).__module__].load_balancing_loss_func
    return [
        function((logits,), model.num_experts, model.num_experts_per_tok, given.get("attention_mask"))
        for logits in output.router_logits
    ]


def make(name):
    config, length, change = MODELS[name][:3]
    more = MODELS[name][3] if len(MODELS[name]) > 3 else None
    torch.manual_seed(sum(name.encode()))
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention_of(name)).float().eval()
    with torch.no_grad():  # gives norms and biases values that affect the result
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))

    ids = torch.randint(1, config.vocab_size, (2, length))
    if config.pad_token_id is not None:
        ids[0, 1] = ids[1, 4] = config.pad_token_id
    labels = ids.clone()
    labels[0, 2:5] = -100
    labels[1, -2:] = -100
    given = more(ids) if more else {}
    output = model(input_ids=ids, labels=labels, **given)
    loss, balance = output.loss, []
    if getattr(config, "output_router_logits", False):
        balance = balance_losses(model, output, given)
        loss = output.loss - config.router_aux_loss_coef * output.aux_loss
        total = loss + config.router_aux_loss_coef * torch.stack(balance).mean()
        assert len(balance) > 1 or torch.allclose(total, output.loss), f"{name}: transformers has another loss"
        total.backward()
    else:
        loss.backward()
    logits = output.logits.detach().double()

    directory = OUT / name
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    if change:
        path = directory / "config.json"
        written = json.loads(path.read_text())
        change(written)
        path.write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
        again = AutoModelForCausalLM.from_pretrained(directory, attn_implementation=attention_of(name))
        assert again(input_ids=ids, labels=labels, **given).loss == output.loss, f"{name}: the changed keys mean another model"
    expected = {
        "source": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "input_ids": ids.tolist(),
        "labels": labels.tolist(),
        **{key: value.tolist() for key, value in given.items()},
        "loss": loss.item(),
        **({"balance": [value.item() for value in balance]} if balance else {}),
        "counted": int((labels[:, 1:] != -100).sum()),
        "logits": {
            "sum": logits.sum().item(),
            "abs_sum": logits.abs().sum().item(),
            "last_token": [[round(x, 8) for x in row] for row in logits[:, -1].tolist()],
        },
        "grad_norms": norms_as_saved(model),
    }
    (directory / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def answers_in(dtype, name):
    directory = OUT / name
    attention = "eager" if MODELS[name][0].model_type == "gemma2" else "sdpa"
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, attn_implementation=attention).eval()
    given = json.loads((directory / "expected.json").read_text())
    keys = [key for key in ("input_ids", "labels", "attention_mask", "position_ids") if key in given]
    output = model(**{key: torch.tensor(given[key]) for key in keys})
    output.loss.backward()
    return {
        "loss": output.loss.item(),
        "last_token": output.logits[:, -1].detach().double().tolist(),
        "grad_norms": {key: p.grad.double().norm().item() for key, p in model.named_parameters()},
    }


def make_half():
    expected = {"source": f"transformers {transformers.__version__}, torch {torch.__version__}"}
    for dtype in (torch.float16, torch.bfloat16):
        expected[str(dtype).removeprefix("torch.")] = {name: answers_in(dtype, name) for name in HALF}
    (OUT / "half_precision.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["--half"]:
        for model_name in sys.argv[1:] or MODELS:
            make(model_name)
    make_half()
