// A kind of model that a run can train: Hugging Face families and exported graphs are two. This is
// the half without torch. Commands and the planner use a model through it, so that they never test
// which kind it is.
//
// ModelKind is one row of the table of kinds (config/model_kinds.h). It reads a model and returns a
// ModelSpec, whose `source` answers all further questions about the model.
// Thread-safety: immutable.
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

// Settings that some kinds of models refuse, in the order in which they are refused.
enum class ModelFeature { kConfigFile, kNewAdapter, kStoredAdapter, kPackedRows, kZero3, kSlices };

// What a configuration says of its model.
struct ModelRequest {
  std::string path;  // the value of the key that names the model
  Precision precision;
  MicrobatchShape microbatch;
  std::vector<std::string> cuts;        // modules between which the model is cut
  std::vector<std::string> recomputed;  // modules and classes whose forward runs twice
  // Keys of exported graphs: the result that is the loss, the class of blocks, sizes as
  // "NAME=NUMBER".
  std::string loss_output, layer_class;
  std::vector<std::string> sizes;
};

// What a model reads of each row of data, and what its loss counts.
struct RowNeeds {
  bool tokens = true;               // a row is a sequence of tokens, with a label for each
  std::vector<FieldOption> fields;  // inputs that each row has beside its tokens, or in their place
  bool takes_mask = true, takes_positions = true;  // rows may have attention_mask, position_ids
  bool masks_padding = false;                      // padding has attention_mask 0
  CountOf count = CountOf::kLabels;
  bool counts_by_model = false;  // only the model can count: it counts neither labels nor rows
  std::int64_t vocab_size = 0;   // token ids are below it
  std::int64_t num_labels = 0;   // labels are below it; 0: below vocab_size
};

// Sets the options of `options` that RowNeeds has.
void set_row_needs(const RowNeeds& needs, TokenDataOptions& options);

class ModelKind;

// What a kind knows about one model beside its layers.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const ModelKind& kind() const = 0;
  // Throws Error(kInput) naming an input that rows of data cannot give.
  virtual RowNeeds row_needs() const = 0;
  // Inputs beside token ids that follow from a text alone. Throws Error(kUsage) for a model that a
  // text is not enough for.
  virtual std::vector<ValueSpec> inputs_of_text() const { return {}; }
  // The layers that these modules and classes contain; a name that has none stays.
  virtual std::vector<std::string> layers_of(const std::vector<std::string>& names,
                                             const std::vector<LayerInfo>& /*layers*/) const {
    return names;
  }
  // Files that identify the model beside its config.json and its weights.
  virtual std::vector<std::string> files() const { return {}; }
  // Whether these files contain the weights.
  virtual bool has_weights() const { return false; }
  // Tensors, beside parameters, that a directory with weights may contain.
  virtual std::vector<std::string> other_tensors() const { return {}; }
  // Whether the model is part of a larger one, whose other tensors stay as they are.
  virtual bool is_part() const { return false; }
  // The text of config.json in a directory of weights, to compare with the model's own. Throws
  // Error(kInput) for a file that this kind cannot read.
  virtual std::string read_config(const std::string& directory) const = 0;
};

class ModelKind {
 public:
  virtual ~ModelKind() = default;
  // "graph": the key of [model] that names models of this kind; "": path and config.
  virtual std::string_view key() const = 0;
  // "an exported graph"
  virtual std::string_view title() const = 0;
  // Further keys of [model] that only this kind reads: "loss_output".
  virtual std::vector<std::string_view> own_keys() const { return {}; }
  // What to do instead of using a feature that this kind refuses; none: it has the feature.
  virtual std::optional<std::string> refusal(ModelFeature /*feature*/) const {
    return std::nullopt;
  }
  // Reads a model. Throws Error(kInput) for its files, Error(kUsage) naming options for a request
  // that does not fit them.
  virtual ModelSpec read(const ModelRequest& request) const = 0;
  // The type of parameters, where the files decide it; "": the configuration does.
  virtual std::string fixed_dtype(const ModelSpec& /*model*/) const { return {}; }
};

}  // namespace sluice
