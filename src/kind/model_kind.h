// The kinds of models that a run can train, such as Hugging Face families and exported graphs.
// Commands and the planner use models only through this interface, so that they never test which
// kind a model is. It needs no torch.
//
// ModelKind is one row of the table of kinds (config/model_kinds.h) and is immutable. It reads a
// model and returns a ModelSpec, whose `source` holds everything that depends on the kind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/data.h"
#include "sluice/model_spec.h"

namespace sluice {

// Settings that some kinds refuse. They are refused in this order.
enum class ModelFeature { kConfigFile, kNewAdapter, kStoredAdapter, kPackedRows, kZero3, kSlices };

// The model settings of a configuration.
struct ModelRequest {
  std::string path;  // value of the key that names the model
  Precision precision;
  MicrobatchShape microbatch;
  std::vector<std::string> cuts;        // modules between which the model is cut
  std::vector<std::string> recomputed;  // modules and classes to recompute in the backward
  // Keys of exported graphs: the output that is the loss, the class of the repeated blocks, and
  // sizes as "NAME=NUMBER".
  std::string loss_output, layer_class;
  std::vector<std::string> sizes;
};

// What a model reads from each row of data, and what its loss counts.
struct RowNeeds {
  bool tokens = true;                              // whether rows are token sequences with labels
  std::vector<FieldOption> fields;                 // inputs beside the tokens, or instead of them
  bool takes_mask = true, takes_positions = true;  // whether rows may have these fields
  bool masks_padding = false;                      // whether padding has attention_mask 0
  CountOf count = CountOf::kLabels;
  bool counts_by_model = false;  // the model counts neither labels nor rows
  std::int64_t vocab_size = 0;   // exclusive limit of token ids
  std::int64_t num_labels = 0;   // exclusive limit of labels; 0: vocab_size
};

void set_row_needs(const RowNeeds& needs, TokenDataOptions& options);

class ModelKind;

// Facts about one model that depend on its kind, beside its layers.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const ModelKind& kind() const = 0;
  // Throws Error(kInput) naming an input that data rows cannot provide.
  virtual RowNeeds row_needs() const = 0;
  // Inputs beside token ids that can be derived from a text alone. Throws Error(kUsage) if the
  // model needs more than a text.
  virtual std::vector<ValueSpec> inputs_of_text() const { return {}; }
  // Replaces each module or class by the layers that it contains. Keeps a name that contains none.
  virtual std::vector<std::string> layers_of(const std::vector<std::string>& names,
                                             const std::vector<LayerInfo>& /*layers*/) const {
    return names;
  }
  // Files that identify the model, beside its config.json and its weights.
  virtual std::vector<std::string> files() const { return {}; }
  // Whether these files contain the weights.
  virtual bool has_weights() const { return false; }
  // Tensors other than parameters that a directory of weights may contain.
  virtual std::vector<std::string> other_tensors() const { return {}; }
  // Whether the model is part of a larger model, whose other tensors stay unchanged.
  virtual bool is_part() const { return false; }
  // The text of config.json in a directory of weights, to be compared with the model's own. Throws
  // Error(kInput) for a file that this kind cannot read.
  virtual std::string read_config(const std::string& directory) const = 0;
};

class ModelKind {
 public:
  virtual ~ModelKind() = default;
  // The key of [model] that names models of this kind, such as "graph". Empty for the kind that
  // model.path and model.config name.
  virtual std::string_view key() const = 0;
  // "an exported graph"
  virtual std::string_view title() const = 0;
  // Further keys of [model] that only this kind reads, such as "loss_output".
  virtual std::vector<std::string_view> own_keys() const { return {}; }
  // What to do instead of using the feature, or none if this kind has the feature.
  virtual std::optional<std::string> refusal(ModelFeature /*feature*/) const {
    return std::nullopt;
  }
  // Reads a model. Throws Error(kInput) for bad files, and Error(kUsage) naming options if the
  // request does not fit the model.
  virtual ModelSpec read(const ModelRequest& request) const = 0;
  // The parameter type if the files fix it. Empty if the configuration chooses it.
  virtual std::string fixed_dtype(const ModelSpec& /*model*/) const { return {}; }
};

}  // namespace sluice
