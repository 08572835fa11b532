// Describes a model without LibTorch: its layers, their values, parameters and costs. Names are
// those of the Hugging Face checkpoint ("model.layers.7.mlp.up_proj.weight").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

struct MicrobatchShape {
  std::int64_t rows = 0, length = 0;
  std::int64_t tokens() const { return rows * length; }
};

// constant + per_row * rows + per_token * rows * length + per_pair * rows * length^2 + per_length *
// length.
struct ShapePolynomial {
  double constant = 0, per_row = 0, per_token = 0, per_pair = 0, per_length = 0;
  double at(const MicrobatchShape& shape) const;
  static ShapePolynomial sum(const ShapePolynomial& a, const ShapePolynomial& b,
                             double factor = 1.0);
  friend bool operator==(const ShapePolynomial&, const ShapePolynomial&) = default;
};

// Costs of a layer. F is a forward and B a backward. B consists of I (input gradients) and W
// (weight gradients).
struct LayerCost {
  // Operations of matrix products. A multiply-add counts as two.
  ShapePolynomial forward_flops, input_flops, weight_flops;
  // Bytes of memory.
  ShapePolynomial after_forward;  // allocated from F to B or I
  ShapePolynomial after_input;    // allocated from I to W
  ShapePolynomial on_entry;       // additional when a backward starts
  ShapePolynomial in_weight;      // additional while a weight gradient is accumulated
  ShapePolynomial at_end;         // additional when a backward ends
  ShapePolynomial in_forward;     // during a forward that keeps nothing
  // Bytes of fused operators' memory pools. Each pool stays allocated at its peak size.
  ShapePolynomial pooled_until_input;   // from F to B or I
  ShapePolynomial pooled_until_weight;  // from F to B or W
  ShapePolynomial pooled_after_input;   // from I to W, and during B
  ShapePolynomial pooled_in_backward;   // during B or I
  ShapePolynomial pooled_in_forward;    // during a forward that keeps nothing
  // Bytes of weight copies for autocast, shared by all microbatches.
  double casted_weights = 0;
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

std::int64_t dtype_bytes(std::string_view dtype);

// Divides each section of a parameter, such as q, k and v of a fused projection, into slices. Slice
// s of S is [n s / S, n (s + 1) / S) of a section of length n.
struct ParameterSplit {
  int dim = 0;
  std::vector<std::int64_t> sections = {};  // empty: one section
  // Number of indivisible units such as heads, a multiple of the slices. 0: none.
  std::int64_t units = 0;
  friend bool operator==(const ParameterSplit&, const ParameterSplit&) = default;
};

struct SliceRange {
  int begin = 0, end = 1, count = 1;
  int size() const { return end - begin; }
  friend bool operator==(const SliceRange&, const SliceRange&) = default;
};

struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string tied_to;  // full name of the first use; "": this is the first use
  std::string dtype = "float32";
  bool trainable = true;
  bool of_adapter = false;
  std::optional<ParameterSplit> split = {};  // how tensor parallelism divides it; none: not
  std::string stored_as = {};                // name in a Hugging Face directory, if different
  std::int64_t numel() const;
};

// Special sizes of a value that depend on the microbatch.
inline constexpr std::int64_t kMicrobatchRows = -1, kMicrobatchLength = -2;

struct ValueSpec {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::string dtype = "float32";
  bool kept = false;  // layers that read the value keep it until their backward
  std::vector<std::int64_t> sizes_at(const MicrobatchShape& shape) const;
  double bytes_at(const MicrobatchShape& shape) const;
};

// A mask that attention materializes. A rank's layers with the same window share it.
struct AttentionMask {
  std::int64_t window = 0;  // tokens to which a token attends; 0: all earlier ones
  bool always = false;      // whether the mask exists even if the window covers every token
  double bytes_of_score = 4;
};

enum class LayerRole { kEmbedding, kBlock, kNorm, kHead, kOther };

struct LayerInfo {
  std::string name;  // "model.embed_tokens", "model.layers.3", "model.norm", "lm_head"
  LayerRole role = LayerRole::kBlock;
  std::vector<ParameterSpec> parameters;
  std::vector<std::string> modules;  // modules of the layer; empty: `name`
  std::vector<std::string> reads;
  std::vector<ValueSpec> writes;
  LayerCost cost;
  // Bytes of later layers' gradients that are allocated during this layer's backward.
  ShapePolynomial waiting_gradients;
  std::shared_ptr<const struct LayerOperators> operators;
  std::optional<AttentionMask> mask;
  bool parameters_known = false;
  bool frozen = false;
  bool loss_by_blocks = false;  // computes the loss by blocks of the vocabulary (LossChunks)
  std::string class_name;
  std::string undivided = {};  // why the layer cannot be tensor-parallel; "": it can
  std::vector<std::string> module_names() const;
  bool computes_loss() const;           // whether a head writes "loss", not "logits"
  bool trains() const;                  // whether any parameter trains; true if unknown
  std::int64_t num_parameters() const;  // counts every use of a tied parameter
};

struct ModelSpec {
  std::string family;  // model_type of config.json; "": none
  std::string dtype;
  std::vector<ValueSpec> inputs;
  std::vector<LayerInfo> layers;
  // Layers without parameters (Model::free_layers).
  std::vector<LayerInfo> free_layers;
  std::int64_t vocab_size = 0;                // 0: no token ids
  std::optional<std::int64_t> max_positions;  // longest sequence; none: no limit
  // Longest sequence that the model was trained for.
  std::optional<std::int64_t> usual_positions;
  std::string config_text;  // config.json as read, for saving
  // What the `sluice` program needs to run the model. Null for your own layers.
  std::shared_ptr<const class ModelSource> source;
  // The model for evaluations, if its layers differ (Model::evaluation).
  std::shared_ptr<const ModelSpec> evaluation;

  // Returns the range [first, second) of layers from the first to the last block.
  std::pair<int, int> block_range() const;
  // Returns the last dimension of hidden states, or 0 if unknown.
  std::int64_t hidden_size() const;
  int num_blocks() const { return block_range().second - block_range().first; }
  std::vector<int> free_layers_of(const std::vector<int>& layers,
                                  const std::vector<std::string>& outputs = {}) const;
  std::int64_t num_parameters() const;  // counts tied parameters once
};

// Reads a config.json or its directory. Missing fields have transformers' defaults. Throws
// Error(kInput) with file and field for bad JSON, an unknown family, or values that are out of
// range or not implemented.
ModelSpec read_model_spec(const std::string& path);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name);

// Reads a config.json for planning only, also with a language model in text_config
// (docs/models.md). If the outer family is unknown, its hidden and vocabulary sizes override the
// nested ones.
ModelSpec read_language_model_spec(const std::string& path);

inline constexpr int kMaxLayers = 10000;
// Returns blocks without parameters, values or costs, to split by layer counts. Throws
// Error(kUsage) for a number below 0 or above kMaxLayers.
ModelSpec model_spec_of_blocks(int num_layers);

// Whether the head computes the loss by blocks of the vocabulary, without storing all logits. The
// model then ends with "loss".
enum class LossChunks { kOff, kAuto, kOn };
// Smallest vocabulary for which kAuto means kOn.
inline constexpr std::int64_t kLargeVocabulary = 32768;

struct Precision {
  std::string parameters = "float32";  // dtype of parameters and of values between layers
  // Type of matrix products under autocast; "": as `parameters`.
  std::string products;

  // Whether layers use sluice's kernels (LayerOptions::fused). Must be false with adapters.
  bool fused = true;

  LossChunks loss_chunks = LossChunks::kOff;  // only with fused operators
  // Whether the head always computes the loss, because no rank has all logits (TensorParallel).
  bool loss_in_head = false;

  std::int64_t parameter_bytes() const { return dtype_bytes(parameters); }
  std::int64_t product_bytes() const {
    return dtype_bytes(products.empty() ? parameters : products);
  }
  bool fuses() const { return fused && parameters == "float32" && !casts(); }
  bool chunks_loss(std::int64_t vocab_size) const {
    return fuses() && loss_chunks != LossChunks::kOff &&
           (loss_chunks == LossChunks::kOn || vocab_size >= kLargeVocabulary);
  }
  bool casts() const { return !products.empty() && products != parameters; }
};

// Read a model as above, with the dtypes and costs of `precision`.
ModelSpec read_model_spec(const std::string& path, const Precision& precision);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name,
                           const Precision& precision);

}  // namespace sluice
