// Interface to the kinds of models that a run can train, such as Hugging Face families and exported
// graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/data.h"
#include "sluice/model_spec.h"

namespace sluice {

// Settings that some kinds refuse.
enum class ModelFeature { kConfigFile, kNewAdapter, kStoredAdapter, kPackedRows, kZero3, kSlices };

struct ModelRequest {
  std::string path;
  Precision precision;
  MicrobatchShape microbatch;
  std::vector<std::string> cuts;        // modules between which the model is cut
  std::vector<std::string> recomputed;  // modules and classes to recompute in the backward
  bool plans_only = false;              // whether models without modules are accepted
  // Texts of ModelKind::own_keys() by key. An empty list: the key is not set.
  std::map<std::string, std::vector<std::string>, std::less<>> own;
};

// What a model reads from a data row, and what its loss counts.
struct RowNeeds {
  bool tokens = true;
  std::vector<FieldOption> fields;  // inputs beside the tokens, or instead of them
  bool takes_mask = true, takes_positions = true;
  bool masks_padding = false;
  CountOf count = CountOf::kLabels;
  bool counts_by_model = false;  // the model counts neither labels nor rows
  std::int64_t vocab_size = 0;
  std::int64_t num_labels = 0;
};

void set_row_needs(const RowNeeds& needs, TokenDataOptions& options);

class ModelKind;

class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const ModelKind& kind() const = 0;
  // Throws Error(kInput) naming an input that data rows cannot provide.
  virtual RowNeeds row_needs() const = 0;
  // Returns the inputs that can be made from a text. Throws Error(kUsage) if the model needs other
  // inputs.
  virtual std::vector<ValueSpec> inputs_of_text() const { return {}; }
  // Replaces each name of a module or class by the names of its layers. Keeps a name that has none.
  virtual std::vector<std::string> layers_of(const std::vector<std::string>& names,
                                             const std::vector<LayerInfo>& /*layers*/) const {
    return names;
  }
  // Files that identify the model, beside config.json and weights.
  virtual std::vector<std::string> files() const { return {}; }
  virtual bool has_weights() const { return false; }
  // Tensors that files may store in addition to parameters.
  virtual std::vector<std::string> other_tensors() const { return {}; }
  // Whether the model is part of a larger model, whose other tensors stay unchanged.
  virtual bool is_part() const { return false; }
  // Returns the model with the parameter names of the directory's weights. Null if is_part() is
  // false or there are no weights. Throws Error(kInput) for bad files.
  virtual std::shared_ptr<const ModelSpec> part_of(const std::string& /*directory*/) const {
    return nullptr;
  }
  // Throws Error(kInput) if config.json cannot be read.
  virtual std::string read_config(const std::string& directory) const;
};

class ModelKind {
 public:
  virtual ~ModelKind() = default;
  // The key of [model] that selects this kind, such as "graph". Empty for the default kind.
  virtual std::string_view key() const = 0;
  virtual std::string_view title() const = 0;
  // Whether model.path or model.config names a model of this kind.
  virtual bool claims(const std::string& /*path*/) const { return false; }
  // Further keys of [model] that only this kind reads.
  virtual std::vector<std::string_view> own_keys() const { return {}; }
  // If this kind refuses the feature, returns the remedy for the error message.
  virtual std::optional<std::string> refusal(ModelFeature /*feature*/) const {
    return std::nullopt;
  }
  // Throws Error(kInput) for bad files, Error(kUsage) for an unsuitable request.
  virtual ModelSpec read(const ModelRequest& request) const = 0;
  // Returns the parameter dtype if the model's files determine it, otherwise "".
  virtual std::string fixed_dtype(const ModelSpec& /*model*/) const { return {}; }
};

class ModelMaker;

// A row of the table of kinds. Null maker: one of sluice's own kinds.
struct KindRow {
  const ModelKind* kind;
  const ModelMaker* maker = nullptr;
};
using KindTable = std::span<const KindRow>;

}  // namespace sluice
