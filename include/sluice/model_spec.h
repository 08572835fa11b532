// What a model is, without torch: an ordered list of named layers with the values that they read
// and write, their parameters and costs.
//
// Owns: ModelSpec, and reading it from a Hugging Face config.json.
// Does not own: weights (io), modules (model), where a layer goes (partition.h); the description of
// layers of one's own (describe.h).
// Names are those of the Hugging Face checkpoint ("model.layers.7.mlp.up_proj.weight") in every
// layout. Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/parts/layer_cost.h"

namespace sluice {

// Bytes of an element of "float32", "bfloat16", "int64", ... Throws Error(kUsage) for another name.
std::int64_t dtype_bytes(std::string_view dtype);

struct ParameterSpec {
  std::string name;  // full name
  std::vector<std::int64_t> shape;
  std::string tied_to;  // full name of the first use, when this is another use of it
  std::string dtype = "float32";
  bool trainable = true;
  std::int64_t numel() const;
};

// Among the sizes of a value: what the microbatch decides.
inline constexpr std::int64_t kMicrobatchRows = -1, kMicrobatchLength = -2;

struct ValueSpec {
  std::string name;
  std::vector<std::int64_t> sizes;  // numbers, kMicrobatchRows, kMicrobatchLength
  std::string dtype = "float32";
  std::vector<std::int64_t> sizes_at(const MicrobatchShape& shape) const;
  double bytes_at(const MicrobatchShape& shape) const;
};

enum class LayerRole { kEmbedding, kBlock, kNorm, kHead, kOther };

struct LayerInfo {
  std::string name;  // "model.embed_tokens", "model.layers.3", "model.norm", "lm_head"
  LayerRole role = LayerRole::kBlock;
  std::vector<ParameterSpec> parameters;  // in the order of the module
  std::vector<std::string> modules;  // its Hugging Face modules where these are not just `name`
  std::vector<std::string> reads;    // values of the batch or of earlier layers
  std::vector<ValueSpec> writes;
  LayerCost cost;
  // Of a layer of which nothing is trained, between layers that are. None: `cost`.
  std::optional<LayerCost> frozen_cost;
  bool parameters_known = false;  // it has no others than `parameters`
  bool frozen = false;            // nothing of it trains, whatever parameters it has
  std::string class_name;         // of its module; "": not known
  std::vector<std::string> module_names() const;
  bool trains() const;                  // has something to train, as far as that is known
  std::int64_t num_parameters() const;  // uses of tied parameters counted here too
};

struct ModelSpec {
  std::string family;                         // model_type of config.json; "": of none
  std::string dtype;                          // dtype / torch_dtype of config.json, "" if absent
  std::vector<ValueSpec> inputs;              // of every batch
  std::vector<LayerInfo> layers;              // forward order
  std::int64_t vocab_size = 0;                // token ids are below it; 0: the batch has none
  std::optional<std::int64_t> max_positions;  // the longest sequence; none: no limit
  // Longer ones work, but the model was not made for them.
  std::optional<std::int64_t> usual_positions;
  std::string config_text;  // config.json as read, for writing it back

  // The layers that are counted in a split: [first, second) from the first to the last block,
  // with all that is between.
  std::pair<int, int> block_range() const;
  int num_blocks() const { return block_range().second - block_range().first; }
  std::int64_t num_parameters() const;  // each tied parameter once
};

// path: a directory with config.json, or the file. Throws Error(kInput) naming file and field:
// missing file, bad JSON, unknown family (with the known ones), missing or out-of-range values,
// values that sluice does not implement. Unknown extra keys are fine.
ModelSpec read_model_spec(const std::string& path);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name);

// The same for planning, where config.json may hold a language model beside any encoders, nested in
// text_config (docs/models.md: what trains, read_model_spec() reads too). Names are those in the
// files; hidden and vocabulary sizes are the outer ones where these are given.
ModelSpec read_language_model_spec(const std::string& path);

// A model of which only the number of blocks is known: Hugging Face names, no parameters, values or
// costs, family "". For make_partition() by counts. Throws Error(kUsage) unless
// 0 <= num_layers <= 10000.
ModelSpec model_spec_of_blocks(int num_layers);

}  // namespace sluice
