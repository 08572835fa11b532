// A model without torch: an ordered list of named layers with the values that they read
// and write, their parameters and costs.
//
// Owns: ModelSpec, costs of layers as functions of the shape of a microbatch, and reading both from
// a Hugging Face config.json for a Precision, on which they depend.
// Does not own: weights (io), modules (model), where a layer goes (partition.h); the description of
// layers of your own (model.h).
// Names are those of the Hugging Face checkpoint ("model.layers.7.mlp.up_proj.weight") in every
// layout. Thread-safety: values.
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
// length. Plain numbers: they may be derived from a configuration or measured.
struct ShapePolynomial {
  double constant = 0, per_row = 0, per_token = 0, per_pair = 0, per_length = 0;
  double at(const MicrobatchShape& shape) const;
  // a + factor * b.
  static ShapePolynomial sum(const ShapePolynomial& a, const ShapePolynomial& b,
                             double factor = 1.0);
  friend bool operator==(const ShapePolynomial&, const ShapePolynomial&) = default;
};

// The costs of a layer as functions of the shape of a microbatch.
struct LayerCost {
  // Operations of matrix products, a multiply-add being two; attention's of all pairs of tokens.
  ShapePolynomial forward_flops, input_flops, weight_flops;
  // Bytes.
  ShapePolynomial after_forward;  // kept from F to B or I
  ShapePolynomial after_input;    // kept from I to W
  ShapePolynomial on_entry;       // more than is kept, when a backward begins
  ShapePolynomial in_weight;      // the same, while the gradient of a weight joins its sum
  ShapePolynomial at_end;         // more than is left, when a backward ends
  ShapePolynomial in_forward;     // while a forward runs that keeps nothing
  // Bytes beside them, of fused operators, whose memory stays with the rank from microbatch to
  // microbatch: what is used at once of each of these, at most, is there all the time.
  ShapePolynomial pooled_until_input;   // from F to B or I
  ShapePolynomial pooled_until_weight;  // from F to B or W
  ShapePolynomial pooled_after_input;   // from I to W, and while B runs
  ShapePolynomial pooled_in_backward;   // while B or I runs
  ShapePolynomial pooled_in_forward;    // while a forward runs that keeps nothing
  // Bytes of copies of weights in the type of products, which the microbatches of a step share.
  double casted_weights = 0;
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

// Bytes of an element of "float32", "bfloat16", "int64", ... Throws Error(kUsage) for another name.
std::int64_t dtype_bytes(std::string_view dtype);

// How a parameter is divided into slices: along one dimension, every section of it by itself, so
// that a slice has a box of each (q, k and v of a fused projection). Of a section of n, slice s of
// S has [n s / S, n (s + 1) / S).
struct ParameterSplit {
  int dim = 0;
  std::vector<std::int64_t> sections = {};  // lengths along dim, all of it; empty: one section
  // The number of what must not be cut, as heads: the slices divide it. 0: anything may be.
  std::int64_t units = 0;
  friend bool operator==(const ParameterSplit&, const ParameterSplit&) = default;
};

// Slices [begin, end) of `count`.
struct SliceRange {
  int begin = 0, end = 1, count = 1;
  int size() const { return end - begin; }
  friend bool operator==(const SliceRange&, const SliceRange&) = default;
};

struct ParameterSpec {
  std::string name;  // full name
  std::vector<std::int64_t> shape;
  std::string tied_to;  // full name of the first use, when this is another use of it
  std::string dtype = "float32";
  bool trainable = true;
  bool of_adapter = false;                   // beside the weights of the base (lora.h)
  std::optional<ParameterSplit> split = {};  // among ranks that share the layer; none: each has it
  std::string stored_as = {};  // in a Hugging Face directory, where that is another name
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

// A mask that attention adds to written scores; layers of a rank with one window share it.
struct AttentionMask {
  std::int64_t window = 0;  // a token sees as many; 0: all before it
  bool always = false;      // also where every token is in the window
  double bytes_of_score = 4;
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
  std::shared_ptr<const struct LayerOperators> operators;  // of which `cost` is the sum
  std::optional<AttentionMask> mask;
  bool parameters_known = false;  // it has no others than `parameters`
  bool frozen = false;            // nothing of it trains, whatever parameters it has
  std::string class_name;         // of its module; "": not known
  std::vector<std::string> module_names() const;
  bool computes_loss() const;           // a head that writes "loss" in place of logits
  bool trains() const;                  // has something to train, as far as that is known
  std::int64_t num_parameters() const;  // uses of tied parameters counted here too
};

struct ModelSpec {
  std::string family;             // model_type of config.json; "": of none
  std::string dtype;              // dtype / torch_dtype of config.json, "" if absent
  std::vector<ValueSpec> inputs;  // of every batch
  std::vector<LayerInfo> layers;  // forward order
  // Those that depend on the batch and on constants alone (masks, rotary tables): on no stage,
  // never cut, and what they write never crosses. Every stage that reads it runs them for itself.
  std::vector<LayerInfo> free_layers;
  std::int64_t vocab_size = 0;                // token ids are below it; 0: the batch has none
  std::optional<std::int64_t> max_positions;  // the longest sequence; none: no limit
  // Longer ones work, but the model was not made for them.
  std::optional<std::int64_t> usual_positions;
  std::string config_text;  // config.json as read, for writing it back
  // The exported graph that it describes, where it describes one (src/archive).
  std::shared_ptr<const struct GraphOfModel> graph;

  // The layers that are counted in a split: [first, second) from the first to the last block,
  // with all that is between.
  std::pair<int, int> block_range() const;
  int num_blocks() const { return block_range().second - block_range().first; }
  // Indices of the free layers that these layers need, and `outputs` beside them, in order.
  std::vector<int> free_layers_of(const std::vector<int>& layers,
                                  const std::vector<std::string>& outputs = {}) const;
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

inline constexpr int kMaxLayers = 10000;  // that a model may have
// A model of which only the number of blocks is known, 0 to kMaxLayers: Hugging Face names, no
// parameters, values or costs, family "". For make_partition() by counts. Throws Error(kUsage).
ModelSpec model_spec_of_blocks(int num_layers);

// The loss computed by the head, by blocks of the vocabulary, so that all logits of a
// microbatch are never there at once. The model's last value is then "loss", not "logits".
enum class LossChunks { kOff, kAuto, kOn };
// The vocabulary from which on kAuto does so.
inline constexpr std::int64_t kLargeVocabulary = 32768;

struct Precision {
  std::string parameters = "float32";  // and what goes from layer to layer
  // Operands and results of products of matrices, under autocast; "": the same.
  std::string products;

  // Blocks run as fused operators where they can: LayerOptions::fused (causal_lm.h). A model with
  // adapters is read without.
  bool fused = true;

  LossChunks loss_chunks = LossChunks::kOff;  // where operators are fused

  std::int64_t parameter_bytes() const { return dtype_bytes(parameters); }
  std::int64_t product_bytes() const {
    return dtype_bytes(products.empty() ? parameters : products);
  }
  bool fuses() const { return fused && parameters == "float32" && !casts(); }
  bool chunks_loss(std::int64_t vocab_size) const {
    return fuses() && loss_chunks != LossChunks::kOff &&
           (loss_chunks == LossChunks::kOn || vocab_size >= kLargeVocabulary);
  }
  // Every product then keeps a copy of its weights and of its input.
  bool casts() const { return !products.empty() && products != parameters; }
};

// As read_model_spec(path), with the types of parameters and values and the costs of this
// precision.
ModelSpec read_model_spec(const std::string& path, const Precision& precision);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name,
                           const Precision& precision);

}  // namespace sluice
