// What a model is, without torch: an ordered list of named layers with their parameters and costs.
//
// Owns: ModelSpec, and reading it from a Hugging Face config.json.
// Does not own: weights (io), modules (model), where a layer goes (partition.h).
// Names are those of the Hugging Face checkpoint ("model.layers.7.mlp.up_proj.weight") in every
// layout. Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct ParameterSpec {
  std::string name;  // full name
  std::vector<std::int64_t> shape;
  std::string tied_to;  // full name of the first use, when this is another use of it
  std::int64_t numel() const;
};

enum class LayerKind { kEmbedding, kDecoder, kNorm, kHead };

struct LayerInfo {
  std::string name;  // "model.embed_tokens", "model.layers.3", "model.norm", "lm_head"
  LayerKind kind = LayerKind::kDecoder;
  std::vector<ParameterSpec> parameters;  // in the order of the Hugging Face module
  std::vector<std::string> modules;  // its Hugging Face modules where these are not just `name`
  std::vector<std::string> module_names() const;
  std::int64_t num_parameters() const;  // uses of tied parameters counted here too
};

// Hyper-parameters of the decoder families that sluice builds itself, as config.json means them.
struct DecoderConfig {
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  std::int64_t max_position_embeddings = 0;
  // llama: the row of the embedding that takes no gradient and starts as zeros; -1: none.
  std::int64_t padding_row = -1;
  double norm_eps = 1e-6;
  double initializer_range = 0.02;
  std::string hidden_act = "silu";
  bool attention_bias = false, mlp_bias = false, tie_word_embeddings = false;
  // Rotary embedding. rope_type: "default", "linear", "llama3"; "none" for learned positions
  // (gpt2).
  double rope_theta = 10000.0;
  std::string rope_type = "default";
  double rope_factor = 1.0, rope_low_freq_factor = 1.0, rope_high_freq_factor = 4.0;
  std::int64_t rope_original_max_position_embeddings = 0;
  // Dropout probabilities (gpt2 family; llama: attention_dropout).
  double attention_dropout = 0.0, residual_dropout = 0.0, embedding_dropout = 0.0;
};

struct ModelSpec {
  std::string family;  // model_type of config.json: "llama", "gpt2"
  DecoderConfig config;
  std::string dtype;                    // dtype / torch_dtype of config.json, "" if absent
  std::vector<LayerInfo> layers;        // forward order: embedding, decoder layers, norm, head
  std::string config_text;              // config.json as read, for writing it back
  std::int64_t num_parameters() const;  // each tied parameter once
};

// path: a directory with config.json, or the file. Throws Error(kInput) naming file and field:
// missing file, bad JSON, unknown family (with the known ones), missing or out-of-range values,
// values that sluice does not implement. Unknown extra keys are fine.
ModelSpec read_model_spec(const std::string& path);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name);

// The same for planning, where config.json may hold a language model beside encoders, nested in
// text_config: that model, named `model.language_model.` and `lm_head`. Its hidden and vocabulary
// sizes are the outer ones where these are given.
ModelSpec read_language_model_spec(const std::string& path);

// A model of which only the number of decoder layers is known: Hugging Face names, no parameters,
// family "". For make_partition() by counts. Throws Error(kUsage) unless 0 <= num_layers <= 10000.
ModelSpec outline_model_spec(int num_layers);

}  // namespace sluice
