#include "family/known_keys.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace sluice::detail {
namespace {

using enum KeyUse;

// Names of model families (model_type of config.json), separated by spaces, to list which families
// read a key. All families but gpt2 and gpt_neox.
constexpr const char* kDecoders =
    "llama mistral qwen2 qwen3 gemma2 gemma3_text olmo2 granite smollm3 mixtral qwen3_moe olmoe "
    "phi3 starcoder2";
constexpr const char* kRotary =
    "llama mistral qwen2 qwen3 gemma2 gemma3_text olmo2 granite smollm3 mixtral qwen3_moe olmoe "
    "phi3 gpt_neox starcoder2";
constexpr const char* kRmsNorms =
    "llama mistral qwen2 qwen3 gemma2 gemma3_text olmo2 granite smollm3 mixtral qwen3_moe olmoe "
    "phi3";
constexpr const char* kWithExperts = "mixtral qwen3_moe olmoe";

// Keys of PreTrainedConfig and of the families' classes in transformers 5.23.
constexpr auto kConfigKeys = std::to_array<KnownKey>({
    {"model_type", kRead},
    {"vocab_size", kRead},
    {"hidden_size", kRead},
    {"num_hidden_layers", kRead},
    {"num_attention_heads", kRead},
    {"max_position_embeddings", kRead},
    {"initializer_range", kRead},
    {"tie_word_embeddings", kRead},
    {"dtype", kRead},
    {"torch_dtype", kRead},
    {"quantization_config", kRead},
    {"text_config", kRead},

    // Keys that would change the computation.
    {"is_causal", kRefused, "", "[true]"},
    {"per_layer_config", kRefused, "", "[null, {}]"},
    {"attribute_map", kRefused, "", "[null, {}]"},
    {"transformers_weights", kRefused, "", "[null]"},
    {"decoder", kRefused, "", "[null]"},
    {"generator", kRefused, "", "[null]"},
    {"sub_configs", kRefused, "", "[null, {}]"},
    {"sub_configs_defaults", kRefused, "", "[null, {}]"},
    {"is_heterogeneous", kRefused, "", "[null, false]"},
    {"_heterogeneity_spec", kRefused, "", "[null]"},
    {"_rope_type_labels", kRefused, "", "[null, []]"},
    {"default_rope_type", kRefused, "", "[\"default\"]"},

    // Keys for metadata, results and performance.
    {"transformers_version", kHarmless},
    {"architectures", kHarmless},
    {"auto_map", kHarmless},
    {"name_or_path", kHarmless},
    {"_name_or_path", kHarmless},
    {"_commit_hash", kHarmless},
    {"_post_init_done", kHarmless},
    {"attn_implementation", kHarmless},
    {"_attn_implementation", kHarmless},
    {"_attn_implementation_internal", kHarmless},
    {"experts_implementation", kHarmless},
    {"_experts_implementation", kHarmless},
    {"_experts_implementation_internal", kHarmless},
    {"base_model_tp_plan", kHarmless},
    {"base_model_fsdp_plan", kHarmless},
    {"base_model_pp_plan", kHarmless},
    {"base_model_ep_plan", kHarmless},
    {"chunk_size_feed_forward", kHarmless},
    {"fusion_config", kHarmless},
    {"gradient_checkpointing", kHarmless},
    {"use_cache", kHarmless},
    {"return_dict", kHarmless},
    {"output_attentions", kHarmless},
    {"_output_attentions", kHarmless},
    {"output_hidden_states", kHarmless},
    {"is_encoder_decoder", kHarmless},
    {"id2label", kHarmless},
    {"label2id", kHarmless},
    {"num_labels", kHarmless},
    {"problem_type", kHarmless},
    {"bos_token_id", kHarmless},
    {"eos_token_id", kHarmless},
    {"mtp_layer_types", kHarmless},
    {"mlp_layer_types", kHarmless},
    {"vision_aspect_ratio", kHarmless},
    {"vision_feature_layer", kHarmless},
    {"vision_feature_select_strategy", kHarmless},
    {"default_theta", kHarmless},
    {"ignore_keys_at_rope_validation", kHarmless},
    {"num_heads", kHarmless},

    {"intermediate_size", kRead, kRotary},
    {"num_key_value_heads", kRead, kDecoders},
    {"head_dim", kRead, kRotary},
    {"head_dim", kHarmless, "gpt2"},
    {"pad_token_id", kRead, kDecoders},
    {"pad_token_id", kHarmless, "gpt2 gpt_neox"},
    {"rms_norm_eps", kRead, kRmsNorms},
    {"norm_epsilon", kRead, "starcoder2"},
    {"layer_norm_eps", kRead, "gpt_neox"},
    {"hidden_act", kRead,
     "llama mistral qwen2 qwen3 olmo2 granite smollm3 mixtral qwen3_moe olmoe phi3 gpt_neox "
     "starcoder2"},
    {"hidden_activation", kRead, "gemma2 gemma3_text"},
    {"attention_dropout", kRead, kRotary},
    {"attention_bias", kRead,
     "llama qwen3 gemma2 gemma3_text olmo2 granite smollm3 qwen3_moe olmoe gpt_neox"},
    {"mlp_bias", kRead, "llama granite smollm3"},
    {"pretraining_tp", kHarmless, "llama"},

    {"rope_parameters", kRead, kRotary},
    {"rope_scaling", kRead, kRotary},
    {"rope_theta", kRead, kDecoders},
    {"partial_rotary_factor", kRead, kDecoders},
    {"original_max_position_embeddings", kRead,
     "llama mistral qwen2 qwen3 gemma2 olmo2 granite smollm3 mixtral qwen3_moe olmoe phi3 "
     "gpt_neox starcoder2"},
    {"rope_parameters", kHarmless, "gpt2"},
    {"rope_scaling", kHarmless, "gpt2"},
    {"rope_theta", kHarmless, "gpt2 gpt_neox"},
    {"partial_rotary_factor", kHarmless, "gpt2 gpt_neox"},
    {"rope_local_base_freq", kRead, "gemma3_text"},
    {"rotary_emb_base", kRead, "gpt_neox"},
    {"rotary_pct", kRead, "gpt_neox"},
    {"no_rope_layers", kRead, "smollm3"},
    {"no_rope_layer_interval", kRead, "smollm3"},

    {"sliding_window", kRead,
     "mistral qwen2 qwen3 gemma2 gemma3_text smollm3 mixtral qwen3_moe phi3 starcoder2"},
    {"sliding_window", kHarmless, "olmoe"},
    {"use_sliding_window", kRead, "qwen2 qwen3 smollm3 qwen3_moe"},
    {"max_window_layers", kRead, "qwen2 qwen3"},
    {"layer_types", kRead, "mistral qwen2 qwen3 gemma2 gemma3_text smollm3"},
    {"sliding_window_pattern", kRead, "gemma3_text"},
    {"layer_types", kHarmless,
     "llama gpt2 olmo2 granite mixtral qwen3_moe olmoe phi3 gpt_neox starcoder2"},
    {"_sliding_window_pattern", kHarmless, "gemma3_text"},

    {"query_pre_attn_scalar", kRead, "gemma2 gemma3_text"},
    {"attn_logit_softcapping", kRead, "gemma2"},
    {"attn_logit_softcapping", kHarmless, "gemma3_text"},
    {"final_logit_softcapping", kRead, "gemma2 gemma3_text"},
    {"use_bidirectional_attention", kRead, "gemma2 gemma3_text"},
    {"embedding_multiplier", kRead, "granite"},
    {"attention_multiplier", kRead, "granite"},
    {"residual_multiplier", kRead, "granite"},
    {"logits_scaling", kRead, "granite"},
    {"resid_pdrop", kRead, "gpt2 phi3"},
    {"embd_pdrop", kRead, "gpt2"},
    {"embd_pdrop", kHarmless, "phi3"},
    {"use_bias", kRead, "starcoder2"},
    {"residual_dropout", kRead, "starcoder2"},
    {"embedding_dropout", kRead, "starcoder2"},
    {"clip_qkv", kRead, "olmoe"},

    {"num_experts", kRead, kWithExperts},
    {"num_local_experts", kRead, kWithExperts},
    {"num_experts_per_tok", kRead, kWithExperts},
    {"output_router_logits", kRead, kWithExperts},
    {"router_aux_loss_coef", kRead, kWithExperts},
    {"router_jitter_noise", kRead, "mixtral"},
    {"norm_topk_prob", kRead, "qwen3_moe olmoe"},
    {"moe_intermediate_size", kRead, "qwen3_moe"},
    {"decoder_sparse_step", kRead, "qwen3_moe"},
    {"mlp_only_layers", kRead, "qwen3_moe"},

    {"n_embd", kRead, "gpt2"},
    {"n_layer", kRead, "gpt2"},
    {"n_head", kRead, "gpt2"},
    {"n_positions", kRead, "gpt2"},
    {"n_inner", kRead, "gpt2"},
    {"activation_function", kRead, "gpt2"},
    {"layer_norm_epsilon", kRead, "gpt2"},
    {"attn_pdrop", kRead, "gpt2"},
    {"scale_attn_weights", kRead, "gpt2"},
    {"scale_attn_by_inverse_layer_idx", kRead, "gpt2"},
    {"reorder_and_upcast_attn", kRead, "gpt2"},
    {"add_cross_attention", kRead, "gpt2"},
    {"output_cross_attentions", kHarmless, "gpt2"},
    {"summary_type", kHarmless, "gpt2"},
    {"summary_use_proj", kHarmless, "gpt2"},
    {"summary_activation", kHarmless, "gpt2"},
    {"summary_proj_to_labels", kHarmless, "gpt2"},
    {"summary_first_dropout", kHarmless, "gpt2"},
    {"hidden_dropout", kRead, "gpt_neox"},
    {"use_parallel_residual", kRead, "gpt_neox"},
    {"classifier_dropout", kHarmless, "gpt_neox"},
    {"is_decoder", kHarmless, "gpt_neox"},
});

// Keys of LoraConfig in PEFT 0.21.
constexpr auto kAdapterKeys = std::to_array<KnownKey>({
    {"peft_type", kRead},
    {"task_type", kRead},
    {"r", kRead},
    {"lora_alpha", kRead},
    {"lora_dropout", kRead},
    {"use_rslora", kRead},
    {"bias", kRead},
    {"target_modules", kRead},
    {"exclude_modules", kRead},
    {"rank_pattern", kRead},
    {"alpha_pattern", kRead},
    {"init_lora_weights", kRead},
    {"base_model_name_or_path", kRead},

    {"auto_mapping", kHarmless},
    {"peft_version", kHarmless},
    {"revision", kHarmless},
    {"inference_mode", kHarmless},
    {"fan_in_fan_out", kHarmless},
    {"runtime_config", kHarmless},
    {"ensure_weight_tying", kHarmless},
    {"megatron_core", kHarmless},
    {"loftq_config", kHarmless},
    {"eva_config", kHarmless},
    {"corda_config", kHarmless},
    {"lora_ga_config", kHarmless},
    {"qalora_group_size", kHarmless},

    {"modules_to_save", kRefused, "", "[null, []]"},
    {"layers_to_transform", kRefused, "", "[null, []]"},
    {"layers_pattern", kRefused, "", "[null, [], \"\"]"},
    {"layer_replication", kRefused, "", "[null, []]"},
    {"target_parameters", kRefused, "", "[null, []]"},
    {"trainable_token_indices", kRefused, "", "[null]"},
    {"alora_invocation_tokens", kRefused, "", "[null]"},
    {"megatron_config", kRefused, "", "[null]"},
    {"use_dora", kRefused, "", "[null, false]"},
    {"lora_bias", kRefused, "", "[null, false]"},
    {"use_qalora", kRefused, "", "[null, false]"},
    {"use_bdlora", kRefused, "", "[null]"},
    {"velora_config", kRefused, "", "[null]"},
    {"monteclora_config", kRefused, "", "[null]"},
    {"arrow_config", kRefused, "", "[null]"},
    {"kasa_config", kRefused, "", "[null]"},
});

bool is_of(std::string_view families, std::string_view family) {
  if (families.empty()) return true;
  if (family.empty()) return false;
  for (std::size_t at = families.find(family); at != std::string_view::npos;
       at = families.find(family, at + 1)) {
    const std::size_t end = at + family.size();
    const bool begins = at == 0 || families[at - 1] == ' ';
    if (begins && (end == families.size() || families[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

std::span<const KnownKey> config_keys() { return kConfigKeys; }

std::span<const KnownKey> adapter_keys() { return kAdapterKeys; }

const KnownKey* find_known_key(std::span<const KnownKey> keys, const std::string& name,
                               const std::string& family) {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const KnownKey& key) {
    return name == key.name && is_of(key.families, family);
  });
  return found == keys.end() ? nullptr : &*found;
}

void require_neutral_keys(const ConfigReader& config, std::span<const KnownKey> keys,
                          const std::string& family) {
  for (const KnownKey& key : keys) {
    if (key.use == kRefused && is_of(key.families, family))
      config.require_one_of(key.name, key.neutral);
  }
}

}  // namespace sluice::detail
