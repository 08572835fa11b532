// A model without torch: an ordered list of named layers with the values that they read and write,
// their parameters and costs.
//
// Names are those of the Hugging Face checkpoint ("model.layers.7.mlp.up_proj.weight") in every
// layout.
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
// length. The numbers are derived from a configuration, or measured.
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
  // Operations of matrix products, a multiply-add being two; in attention, of all pairs of tokens.
  ShapePolynomial forward_flops, input_flops, weight_flops;
  // Bytes.
  ShapePolynomial after_forward;  // kept from F to B or I
  ShapePolynomial after_input;    // kept from I to W
  ShapePolynomial on_entry;       // beyond what is kept, when a backward starts
  ShapePolynomial in_weight;      // the same, while a weight's gradient is added to its sum
  ShapePolynomial at_end;         // beyond what is left, when a backward ends
  ShapePolynomial in_forward;     // while a forward runs that keeps nothing
  // Further bytes, of fused operators, whose memory stays with the rank from microbatch to
  // microbatch: the largest amount of each that is in use at once is held all the time.
  ShapePolynomial pooled_until_input;   // from F to B or I
  ShapePolynomial pooled_until_weight;  // from F to B or W
  ShapePolynomial pooled_after_input;   // from I to W, and while B runs
  ShapePolynomial pooled_in_backward;   // while B or I runs
  ShapePolynomial pooled_in_forward;    // while a forward runs that keeps nothing
  // Bytes of the weights' copies in the type of products, which the microbatches of a step share.
  double casted_weights = 0;
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

// Bytes of an element of "float32", "bfloat16", "int64", ... Throws Error(kUsage) for any other
// name.
std::int64_t dtype_bytes(std::string_view dtype);

// The division of a parameter into slices: along one dimension, every section of it by itself, so
// that a slice has a box of each (q, k and v of a fused projection). Slice s of S has [n s / S, n
// (s + 1) / S) of a section of length n.
struct ParameterSplit {
  int dim = 0;
  std::vector<std::int64_t> sections = {};  // lengths along dim, all of it; empty: one section
  // Number of units that must not be cut, such as heads: the slices divide it. 0: cuts may be
  // anywhere.
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
  bool of_adapter = false;                   // part of an adapter (lora.h)
  std::optional<ParameterSplit> split = {};  // among ranks that share the layer; none: each has all
  std::string stored_as = {};                // its name in a Hugging Face directory, if it differs
  std::int64_t numel() const;
};

// Special sizes of a value: those that the microbatch decides.
inline constexpr std::int64_t kMicrobatchRows = -1, kMicrobatchLength = -2;

struct ValueSpec {
  std::string name;
  std::vector<std::int64_t> sizes;  // numbers, kMicrobatchRows, kMicrobatchLength
  std::string dtype = "float32";
  bool kept = false;  // of an input: the layers that read it keep it until their backward
  std::vector<std::int64_t> sizes_at(const MicrobatchShape& shape) const;
  double bytes_at(const MicrobatchShape& shape) const;
};

// A mask that attention adds to scores in memory; layers of a rank with the same window share it.
struct AttentionMask {
  std::int64_t window = 0;  // number of tokens that a token sees; 0: all before it
  bool always = false;      // also where every token is in the window
  double bytes_of_score = 4;
};

enum class LayerRole { kEmbedding, kBlock, kNorm, kHead, kOther };

struct LayerInfo {
  std::string name;  // "model.embed_tokens", "model.layers.3", "model.norm", "lm_head"
  LayerRole role = LayerRole::kBlock;
  std::vector<ParameterSpec> parameters;  // in the order of the module
  std::vector<std::string> modules;       // its Hugging Face modules; empty: `name`
  std::vector<std::string> reads;         // values of the batch or of earlier layers
  std::vector<ValueSpec> writes;
  LayerCost cost;
  // Bytes of gradients of other layers' values that exist while the backward of this layer runs.
  ShapePolynomial waiting_gradients;
  std::shared_ptr<const struct LayerOperators> operators;  // operators whose costs add up to `cost`
  std::optional<AttentionMask> mask;
  bool parameters_known = false;  // `parameters` are all that it has
  bool frozen = false;            // none of its parameters trains
  bool loss_by_blocks = false;    // of the vocabulary, in a head that computes the loss
  std::string class_name;         // class of its module; "": not known
  std::string undivided = {};     // why ranks cannot share it, as "it norms ..."; "": they can
  std::vector<std::string> module_names() const;
  bool computes_loss() const;           // True for a head that writes "loss" in place of logits.
  bool trains() const;                  // True if it has something to train, as far as known.
  std::int64_t num_parameters() const;  // uses of tied parameters count here too
};

struct ModelSpec {
  std::string family;             // model_type of config.json; "": no family
  std::string dtype;              // dtype / torch_dtype of config.json, "" if absent
  std::vector<ValueSpec> inputs;  // values in every batch
  std::vector<LayerInfo> layers;  // forward order
  // Layers that depend on the batch and on constants alone (masks, rotary tables): they are on no
  // stage, and every stage that reads what they write runs them for itself, so that it never
  // crosses a cut.
  std::vector<LayerInfo> free_layers;
  std::int64_t vocab_size = 0;                // token ids are below it; 0: the batch has none
  std::optional<std::int64_t> max_positions;  // the longest sequence; none: no limit
  // The longest sequence that the model was made for; longer ones work.
  std::optional<std::int64_t> usual_positions;
  std::string config_text;  // config.json as read, for writing it back
  // What else is known of the model by the reader that described it; null: your own layers.
  std::shared_ptr<const class ModelSource> source;
  // The model in evaluation, if it has other layers with the same parameters; null: this one.
  std::shared_ptr<const ModelSpec> evaluation;

  // The layers that a split counts: [first, second) from the first to the last block, with all that
  // is between.
  std::pair<int, int> block_range() const;
  // Width of the hidden states: the last size of the first value that a block writes. 0: not known.
  std::int64_t hidden_size() const;
  int num_blocks() const { return block_range().second - block_range().first; }
  // Indices of the free layers that these layers and `outputs` need, in order.
  std::vector<int> free_layers_of(const std::vector<int>& layers,
                                  const std::vector<std::string>& outputs = {}) const;
  std::int64_t num_parameters() const;  // each tied parameter once
};

// The model of a config.json. path: a directory with config.json, or the file. Throws Error(kInput)
// naming file and field: missing file, bad JSON, unknown family (with the known ones), values that
// are out of range or that sluice does not implement. A field that is not there has the default of
// its class in transformers. Unknown extra keys are fine.
ModelSpec read_model_spec(const std::string& path);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name);

// The same for planning: config.json may also hold a language model beside any encoders, nested in
// text_config (docs/models.md; read_model_spec() reads all that trains). Names are those in the
// files. Where sluice does not know the outer object, its hidden and vocabulary sizes win.
ModelSpec read_language_model_spec(const std::string& path);

inline constexpr int kMaxLayers = 10000;  // most layers that a model may have
// A model of which only the number of blocks is known, 0 to kMaxLayers: Hugging Face names, no
// parameters, values or costs, family "". For make_partition() by counts. Throws Error(kUsage).
ModelSpec model_spec_of_blocks(int num_layers);

// The choice of a head that computes the loss, by blocks of the vocabulary, so that all logits of a
// microbatch never exist at once. The model's last value is then "loss", not "logits".
enum class LossChunks { kOff, kAuto, kOn };
// The smallest vocabulary with which kAuto means kOn.
inline constexpr std::int64_t kLargeVocabulary = 32768;

struct Precision {
  std::string parameters = "float32";  // and of values between layers
  // Type of the operands and results of matrix products, under autocast; "": that of parameters.
  std::string products;

  // Blocks run as fused operators where possible: LayerOptions::fused (causal_lm.h). A model with
  // adapters is read with false.
  bool fused = true;

  LossChunks loss_chunks = LossChunks::kOff;  // acts only where operators are fused
  // A head computes the loss in any case: of slices (TensorParallel), whose logits no rank then has
  // all of.
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
  // True if every product keeps copies of its weights and of its input in another type.
  bool casts() const { return !products.empty() && products != parameters; }
};

// The same with the types of parameters and values and the costs of this precision.
ModelSpec read_model_spec(const std::string& path, const Precision& precision);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name,
                           const Precision& precision);

}  // namespace sluice
