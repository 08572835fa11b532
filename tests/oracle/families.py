"""The model families of transformers: configurations that differ in one aspect each, and random ones.

FAMILIES maps a model_type to its Family. A Family has the class of its configuration, the settings that all tiny
models share, named variants (short runs use the first), and `draw`, which takes a random.Random and returns the
arguments of a valid configuration.

The language models inside vision-language models are families of their own here, under the outer model_type.
"""
import dataclasses
from typing import Callable

import transformers as tf

LENGTH = 24  # tokens per row: longer than the windows below, shorter than every position table


@dataclasses.dataclass
class Family:
    config: type
    base: dict
    variants: dict
    draw: Callable


DECODER = dict(
    vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.1, bos_token_id=1, eos_token_id=2,
    pad_token_id=None, use_cache=False, tie_word_embeddings=False,
)
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.5}
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16}


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def draw_rope(rng, yarn=True):
    theta = rng.choice([100.0, 10000.0, 1e6])
    return rng.choice([
        {"rope_type": "default", "rope_theta": theta},
        {"rope_type": "linear", "rope_theta": theta, "factor": rng.choice([1.0, 2.0, 3.7])},
        {"rope_type": "llama3", "rope_theta": theta, "factor": rng.choice([2.0, 8.0]), "low_freq_factor": 1.0,
         "high_freq_factor": rng.choice([2.0, 4.0]), "original_max_position_embeddings": rng.choice([16, 32])},
    ] + ([{**YARN_ROPE, "rope_theta": theta, "factor": rng.choice([2.0, 4.0])}] if yarn else []))


def draw_decoder(rng, head_dim=False, rope=True, biases=(), kv=True):
    """Draws the sizes, ties and rope of a decoder. head_dim: may differ from hidden_size / heads."""
    heads = rng.choice([1, 2, 3, 4, 6, 8])
    size = rng.choice([2, 4, 6, 8, 16])
    drawn = dict(
        vocab_size=rng.randint(20, 90), hidden_size=heads * size, intermediate_size=rng.randint(5, 60),
        num_hidden_layers=rng.randint(1, 5), num_attention_heads=heads, tie_word_embeddings=rng.random() < 0.4,
        rms_norm_eps=rng.choice([1e-6, 1e-5, 1e-3]), pad_token_id=rng.choice([None, 0, 3]),
    )
    drawn["num_key_value_heads"] = rng.choice(divisors(heads)) if kv else heads
    if head_dim:
        drawn["head_dim"] = rng.choice([2, 4, 8, 10, 16])
        drawn["hidden_size"] = heads * rng.choice([3, 4, 5, 8])
    if rope:
        drawn["rope_parameters"] = draw_rope(rng)
    for key in biases:
        drawn[key] = rng.random() < 0.5
    return drawn


def draw_activation(rng):
    return rng.choice(["silu", "silu", "silu", "gelu", "gelu_pytorch_tanh", "relu"])


def draw_types(rng, layers):
    return [rng.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]


def draw_window(rng):
    return rng.choice([1, 2, 3, 7, LENGTH - 1, LENGTH, LENGTH + 1, 50])


def draw_llama(rng):
    return {**draw_decoder(rng, head_dim=True, biases=("attention_bias", "mlp_bias")), "hidden_act": draw_activation(rng)}


def draw_gpt2(rng):
    heads = rng.choice([1, 2, 3, 4])
    return dict(vocab_size=rng.randint(20, 90), n_embd=heads * rng.choice([3, 4, 8]), n_layer=rng.randint(1, 5),
                n_head=heads, n_inner=rng.choice([None, 20, 33]), tie_word_embeddings=rng.random() < 0.6,
                n_positions=rng.choice([LENGTH, 40]), layer_norm_epsilon=rng.choice([1e-5, 1e-3]))


def draw_mistral(rng):
    return {**draw_decoder(rng, head_dim=True), "sliding_window": rng.choice([None, draw_window(rng)]),
            "hidden_act": draw_activation(rng)}


def draw_qwen(rng, head_dim=False, **kwargs):
    drawn = draw_decoder(rng, head_dim=head_dim, **kwargs)
    drawn.update(use_sliding_window=rng.random() < 0.6, sliding_window=draw_window(rng),
                 max_window_layers=rng.randint(0, drawn["num_hidden_layers"]), hidden_act=draw_activation(rng))
    if rng.random() < 0.4:
        drawn["layer_types"] = draw_types(rng, drawn["num_hidden_layers"])
        # Sliding layers need a window.
        if not drawn["use_sliding_window"]:
            drawn["layer_types"] = ["full_attention"] * drawn["num_hidden_layers"]
    return drawn


def draw_gemma(rng, local=False):
    drawn = draw_decoder(rng, head_dim=True, rope=not local, biases=("attention_bias",))
    drawn.update(sliding_window=draw_window(rng), query_pre_attn_scalar=rng.choice([4, 8, 100]),
                 tie_word_embeddings=rng.random() < 0.8, pad_token_id=rng.choice([0, 3]),
                 attn_logit_softcapping=rng.choice([None, 2.0, 50.0]),
                 final_logit_softcapping=rng.choice([None, 3.0, 30.0]),
                 hidden_activation=rng.choice(["gelu_pytorch_tanh", "gelu", "silu"]))
    if rng.random() < 0.5:
        drawn["layer_types"] = draw_types(rng, drawn["num_hidden_layers"])
    if local:
        drawn["rope_parameters"] = {"full_attention": draw_rope(rng), "sliding_attention": draw_rope(rng)}
    return drawn


def draw_olmo2(rng):
    return {**draw_decoder(rng, biases=("attention_bias",)), "hidden_act": draw_activation(rng)}


def draw_granite(rng):
    drawn = draw_decoder(rng, biases=("attention_bias", "mlp_bias"))
    drawn.update(embedding_multiplier=rng.choice([1.0, 12.0, 0.5]), logits_scaling=rng.choice([1.0, 8.0]),
                 residual_multiplier=rng.choice([1.0, 0.22]), attention_multiplier=rng.choice([1.0, 0.0625, 0.3]))
    return drawn


def draw_smollm3(rng):
    drawn = draw_decoder(rng, biases=("attention_bias", "mlp_bias"))
    layers = drawn["num_hidden_layers"]
    drawn.update(use_sliding_window=rng.random() < 0.5, sliding_window=rng.choice([None, draw_window(rng)]),
                 no_rope_layer_interval=rng.choice([1, 2, 4]),
                 no_rope_layers=rng.choice([None, [rng.randint(0, 1) for _ in range(layers)]]))
    return drawn


def draw_experts(rng):
    experts = rng.choice([2, 4, 5, 8])
    return dict(num_experts_per_tok=rng.randint(1, min(4, experts)), experts=experts)


def draw_mixtral(rng):
    drawn, experts = draw_decoder(rng, head_dim=True), draw_experts(rng)
    drawn.update(num_local_experts=experts.pop("experts"), **experts, sliding_window=rng.choice([None, draw_window(rng)]))
    return drawn


def draw_qwen3_moe(rng):
    drawn, experts = draw_decoder(rng, head_dim=True, biases=("attention_bias",)), draw_experts(rng)
    layers = drawn["num_hidden_layers"]
    drawn.update(num_experts=experts.pop("experts"), **experts, moe_intermediate_size=rng.randint(5, 40),
                 norm_topk_prob=rng.random() < 0.5, decoder_sparse_step=rng.choice([1, 1, 2]),
                 mlp_only_layers=rng.choice([[], [rng.randrange(layers)]]),
                 use_sliding_window=rng.random() < 0.5, sliding_window=draw_window(rng))
    return drawn


def draw_olmoe(rng):
    drawn, experts = draw_decoder(rng, biases=("attention_bias",)), draw_experts(rng)
    drawn.update(num_experts=experts.pop("experts"), **experts, norm_topk_prob=rng.random() < 0.5)
    return drawn


def longrope(pairs, short, long, original=16):
    return {"rope_type": "longrope", "rope_theta": 1000.0, "short_factor": [short + 0.1 * i for i in range(pairs)],
            "long_factor": [long + 0.3 * i for i in range(pairs)], "original_max_position_embeddings": original}


def draw_phi3(rng):
    drawn = draw_decoder(rng, rope=False)
    size = drawn["hidden_size"] // drawn["num_attention_heads"]
    factor = rng.choice([1.0, 0.5]) if size % 4 == 0 else 1.0
    rope = {"rope_type": "default", "rope_theta": rng.choice([100.0, 10000.0])}
    if rng.random() < 0.5:
        original = rng.choice([16, 64])
        rope = longrope(int(size * factor) // 2, 1.0, 2.0, original)
        drawn["original_max_position_embeddings"] = original
    drawn.update(rope_parameters={**rope, "partial_rotary_factor": factor},
                 sliding_window=rng.choice([None, draw_window(rng)]), hidden_act=draw_activation(rng))
    return drawn


def draw_gpt_neox(rng):
    heads = rng.choice([1, 2, 3, 4])
    size = rng.choice([4, 8, 16])
    return dict(vocab_size=rng.randint(20, 90), hidden_size=heads * size, num_hidden_layers=rng.randint(1, 5),
                num_attention_heads=heads, intermediate_size=rng.randint(5, 60),
                hidden_act=rng.choice(["gelu", "gelu_new", "relu"]), tie_word_embeddings=rng.random() < 0.4,
                use_parallel_residual=rng.random() < 0.6, attention_bias=rng.random() < 0.6,
                layer_norm_eps=rng.choice([1e-5, 1e-3]),
                rope_parameters={**draw_rope(rng, yarn=False), "partial_rotary_factor": rng.choice([0.5, 1.0])})


def draw_starcoder2(rng):
    drawn = draw_decoder(rng, biases=("use_bias",))
    # a layer norm of two numbers is the sign of their difference, so rounding would decide it
    if drawn["hidden_size"] < 8:
        drawn["hidden_size"] *= 4
    drawn.update(norm_epsilon=drawn.pop("rms_norm_eps"), sliding_window=rng.choice([None, draw_window(rng)]),
                 hidden_act=draw_activation(rng))
    return drawn


GEMMA = {**DECODER, "head_dim": 8, "pad_token_id": 0, "tie_word_embeddings": True, "query_pre_attn_scalar": 12,
         "sliding_window": 5}
GPT2 = dict(vocab_size=48, n_embd=32, n_layer=4, n_head=4, n_positions=40, initializer_range=0.1, bos_token_id=1,
            eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
NEOX = {k: v for k, v in DECODER.items() if k != "num_key_value_heads"}
MOE = {**DECODER, "num_experts": 6, "num_experts_per_tok": 2}

CLIP = dict(model_type="clip_vision_model", hidden_size=8, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=2, image_size=4, patch_size=2, projection_dim=8)
SIGLIP = {**CLIP, "model_type": "siglip_vision_model"}
PIXTRAL = {**CLIP, "model_type": "pixtral", "head_dim": 4}
INTERNVL = {**CLIP, "model_type": "internvl_vision", "image_size": [4, 4], "patch_size": [2, 2]}
IDEFICS = {key: SIGLIP[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                                        "image_size", "patch_size")}


def qwen_vision(hidden, first=False):
    common = dict(depth=1, num_heads=2, patch_size=2)
    if first:
        return dict(common, embed_dim=8, hidden_size=hidden)
    return dict(common, hidden_size=8, intermediate_size=8, out_hidden_size=hidden, fullatt_block_indexes=[0],
                deepstack_visual_indexes=[0])


def whole(config, text_type, vision, draw, image="image_token_index", **rest):
    """Returns a vision-language model. vision: its configuration, or a function of the text's width. draw:
    arguments of a random text_config."""
    tokens = {image: 40}
    if text_type.startswith("qwen") and "_vl_" in text_type:
        tokens.update(video_token_id=41, vision_start_token_id=42, vision_end_token_id=43)

    def arguments(text):
        seen = vision(text["hidden_size"]) if callable(vision) else vision
        return {**tokens, **rest, "text_config": {"model_type": text_type, **text}, "vision_config": seen}

    base = {**DECODER, "pad_token_id": 0, "num_hidden_layers": 3}
    sections = {}
    if "_vl_" in text_type:
        base["num_attention_heads"] = 2
        sections = {"rope_parameters": {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 3, 3]}}
    if text_type in ("qwen3", "qwen3_vl_text", "gemma3_text", "mistral"):
        sections["head_dim"] = 16

    def draw_whole(rng):
        text = {**base, **draw(rng), **sections}
        text["vocab_size"] = max(text["vocab_size"], 50)
        if "_vl_" in text_type:  # the sections of the three positions fill half a head of 16 channels
            text.update(num_attention_heads=2, hidden_size=32, num_key_value_heads=rng.choice([1, 2]))
        return {**arguments(text), "tie_word_embeddings": rng.random() < 0.5}

    return Family(config, {}, {
        "untied": {**arguments({**base, **sections}), "tie_word_embeddings": False},
        "tied": {**arguments({**base, **sections}), "tie_word_embeddings": True},
    }, draw_whole)


FAMILIES = {
    "llama": Family(tf.LlamaConfig, DECODER, {
        "grouped": {},
        "biases_tied": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
        "wide_heads_llama3": dict(head_dim=16, rope_parameters=LLAMA3_ROPE),
        "linear_padding": dict(rope_parameters=LINEAR_ROPE, pad_token_id=3, num_key_value_heads=1),
        "yarn": dict(rope_parameters=YARN_ROPE),
        "gelu": dict(hidden_act="gelu"),
    }, draw_llama),
    "gpt2": Family(tf.GPT2Config, GPT2, {
        "tied": {}, "untied_inner": dict(n_inner=50, tie_word_embeddings=False), "full_length": dict(n_positions=LENGTH),
    }, draw_gpt2),
    "mistral": Family(tf.MistralConfig, DECODER, {
        "window": dict(sliding_window=5),
        "no_window": dict(sliding_window=None), "window_of_one": dict(sliding_window=1),
        "window_is_length": dict(sliding_window=LENGTH), "wide_heads_tied": dict(head_dim=12, tie_word_embeddings=True, sliding_window=9),
    }, draw_mistral),
    "qwen2": Family(tf.Qwen2Config, DECODER, {
        "some_windows": dict(use_sliding_window=True, sliding_window=5, max_window_layers=2),
        "plain_tied": dict(tie_word_embeddings=True), "layer_types": dict(use_sliding_window=True, sliding_window=4,
            layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"]),
        "yarn": dict(rope_parameters=YARN_ROPE),
    }, draw_qwen),
    "qwen3": Family(tf.Qwen3Config, {**DECODER, "head_dim": 12}, {
        "plain": {}, "biases_tied": dict(attention_bias=True, tie_word_embeddings=True),
        "some_windows": dict(use_sliding_window=True, sliding_window=5, max_window_layers=1),
        "yarn": dict(rope_parameters=YARN_ROPE),
    }, lambda rng: draw_qwen(rng, head_dim=True, biases=("attention_bias",))),
    "gemma2": Family(tf.Gemma2Config, GEMMA, {
        "caps": dict(attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
        "no_attention_cap": dict(attn_logit_softcapping=None), "no_caps": dict(attn_logit_softcapping=None, final_logit_softcapping=None),
        "biases_untied": dict(attention_bias=True, tie_word_embeddings=False),
        "layer_types": dict(layer_types=["full_attention", "full_attention", "sliding_attention", "full_attention"]),
    }, draw_gemma),
    "gemma3_text": Family(tf.Gemma3TextConfig, GEMMA, {
        "default": dict(layer_types=["sliding_attention", "full_attention"] * 2),
        "pattern": dict(sliding_window_pattern=3), "all_sliding": dict(num_hidden_layers=3),
        "ropes": dict(layer_types=["sliding_attention", "full_attention"] * 2, rope_parameters={
            "full_attention": LINEAR_ROPE, "sliding_attention": {"rope_type": "default", "rope_theta": 77.0}}),
        "caps": dict(attn_logit_softcapping=2.0, final_logit_softcapping=3.0, sliding_window_pattern=2),
        "biases_untied": dict(attention_bias=True, tie_word_embeddings=False, sliding_window_pattern=2),
    }, lambda rng: draw_gemma(rng, local=True)),
    "olmo2": Family(tf.Olmo2Config, DECODER, {
        "grouped": {}, "biases_tied": dict(attention_bias=True, tie_word_embeddings=True, num_key_value_heads=4),
        "llama3": dict(rope_parameters=LLAMA3_ROPE),
    }, draw_olmo2),
    "granite": Family(tf.GraniteConfig, DECODER, {
        "multipliers": dict(embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.22, attention_multiplier=0.09),
        "plain": {}, "biases_tied": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, embedding_multiplier=12.0),
    }, draw_granite),
    "smollm3": Family(tf.SmolLM3Config, {**DECODER, "pad_token_id": 3}, {
        "every_fourth": dict(tie_word_embeddings=True),
        "list_windows": dict(no_rope_layers=[0, 1, 0, 1], use_sliding_window=True, sliding_window=5),
        "biases": dict(attention_bias=True, mlp_bias=True, no_rope_layer_interval=2),
    }, draw_smollm3),
    "mixtral": Family(tf.MixtralConfig, {**DECODER, "num_local_experts": 6}, {
        "top2": {}, "top1_window": dict(num_experts_per_tok=1, sliding_window=5),
        "top3_tied": dict(num_experts_per_tok=3, tie_word_embeddings=True, head_dim=12),
        "one_moe_layer_auxiliary": dict(num_hidden_layers=1, output_router_logits=True, router_aux_loss_coef=0.3),
    }, draw_mixtral),
    "qwen3_moe": Family(tf.Qwen3MoeConfig, {**MOE, "head_dim": 12, "moe_intermediate_size": 12}, {
        "normed": dict(norm_topk_prob=True), "not_normed": dict(norm_topk_prob=False, tie_word_embeddings=True),
        "some_dense": dict(mlp_only_layers=[1], decoder_sparse_step=2),
        "windows": dict(use_sliding_window=True, sliding_window=5),
        "one_moe_layer_auxiliary": dict(mlp_only_layers=[0, 2, 3], output_router_logits=True, router_aux_loss_coef=0.3),
    }, draw_qwen3_moe),
    "olmoe": Family(tf.OlmoeConfig, MOE, {
        "plain": {}, "normed_biases": dict(norm_topk_prob=True, attention_bias=True),
        "one_moe_layer_auxiliary": dict(num_hidden_layers=1, output_router_logits=True, router_aux_loss_coef=0.3),
    }, draw_olmoe),
    "phi3": Family(tf.Phi3Config, DECODER, {
        "partial": dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
        "plain_tied": dict(tie_word_embeddings=True), "window": dict(sliding_window=5),
        "longrope_long": dict(rope_parameters={**longrope(4, 1.0, 2.0, 16), "partial_rotary_factor": 1.0}, original_max_position_embeddings=16),
        "longrope_short": dict(rope_parameters={**longrope(4, 1.0, 2.0, 32), "partial_rotary_factor": 1.0}, original_max_position_embeddings=32),
    }, draw_phi3),
    "gpt_neox": Family(tf.GPTNeoXConfig, NEOX, {
        "parallel": {}, "sequential": dict(use_parallel_residual=False), "no_bias_tied": dict(attention_bias=False, tie_word_embeddings=True),
        "half_rotary": dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}, hidden_act="gelu_new"),
    }, draw_gpt_neox),
    "starcoder2": Family(tf.Starcoder2Config, DECODER, {
        "window": dict(sliding_window=5), "tied": dict(tie_word_embeddings=True),
        "no_bias": dict(use_bias=False, norm_epsilon=1e-3, hidden_act="gelu", num_key_value_heads=1),
        "yarn": dict(rope_parameters=YARN_ROPE),
    }, draw_starcoder2),
}

WHOLES = {
    "llava": whole(tf.LlavaConfig, "llama", CLIP, draw_llama),
    "llava_next": whole(tf.LlavaNextConfig, "mistral", CLIP, draw_mistral),
    "llava_onevision": whole(tf.LlavaOnevisionConfig, "qwen2", SIGLIP, draw_qwen),
    "mistral3": whole(tf.Mistral3Config, "mistral", PIXTRAL, draw_mistral),
    "gemma3": whole(tf.Gemma3Config, "gemma3_text", SIGLIP,
                    # sluice rejects a cap here, which transformers ignores.
                    lambda rng: {**draw_gemma(rng, local=True), "final_logit_softcapping": None},
                    mm_tokens_per_image=4, boi_token_index=41, eoi_token_index=42),
    "qwen2_vl": whole(tf.Qwen2VLConfig, "qwen2_vl_text", lambda hidden: qwen_vision(hidden, first=True), draw_qwen,
                      image="image_token_id"),
    "qwen2_5_vl": whole(tf.Qwen2_5_VLConfig, "qwen2_5_vl_text", qwen_vision, draw_qwen, image="image_token_id"),
    "qwen3_vl": whole(tf.Qwen3VLConfig, "qwen3_vl_text", qwen_vision, lambda rng: draw_decoder(rng, biases=("attention_bias",)),
                      image="image_token_id"),
    "idefics3": whole(tf.Idefics3Config, "llama", IDEFICS, draw_llama, image="image_token_id"),
    "smolvlm": whole(tf.SmolVLMConfig, "llama", IDEFICS, draw_llama, image="image_token_id"),
    "internvl": whole(tf.InternVLConfig, "qwen2", INTERNVL, draw_qwen, image="image_token_id"),
}
FAMILIES.update(WHOLES)
