#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/name_pattern.h"
#include "base/text.h"
#include "io/hf_shards.h"
#include "io/safetensors_dtype.h"
#include "kind/hf_names.h"
#include "kind/model_kind.h"
#include "sluice/error.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {
namespace {

// Tied parameters: name of the first use -> names of all uses in order.
using TieUses = std::map<std::string, std::vector<std::string>>;

TieUses tie_uses(const ModelSpec& model) {
  TieUses uses;
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (parameter.tied_to.empty()) continue;
      std::vector<std::string>& names = uses[parameter.tied_to];
      if (names.empty()) names.push_back(parameter.tied_to);
      names.push_back(parameter.name);
    }
  }
  return uses;
}

// Parameter name -> tensor name in files.
using StoredNames = std::map<std::string, std::string>;

StoredNames stored_names(const ModelSpec& model) {
  StoredNames names;
  for (const LayerInfo& layer : model.layers)
    for (const ParameterSpec& parameter : layer.parameters)
      if (!parameter.stored_as.empty()) names.emplace(parameter.name, parameter.stored_as);
  return names;
}

std::optional<TensorSource> find_stored(const HfDirectory& directory, const std::string& name,
                                        const StoredNames& stored) {
  const auto other = stored.find(name);
  if (other != stored.end())
    if (auto source = directory.shards().find(other->second)) return source;
  return directory.shards().find(name);
}

std::vector<std::string> names_of(const ModelSpec& model) {
  std::vector<std::string> names;
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) names.push_back(parameter.name);
  }
  return names;
}

// Returns a parameter's tensor, for a tied parameter that of its first stored use.
TensorSource source_of(const HfDirectory& directory, const std::string& name,
                       const std::string& tied_to, const TieUses& ties, const StoredNames& stored,
                       const ModelSpec& model) {
  const std::string& first = tied_to.empty() ? name : tied_to;
  const auto uses = ties.find(first);
  const std::vector<std::string> candidates =
      uses != ties.end() ? uses->second : std::vector<std::string>{first, name};
  for (const std::string& candidate : candidates) {
    if (const auto source = find_stored(directory, candidate, stored)) return *source;
  }
  return directory.shards().locate(first, names_of(model));
}

void check_fits(const TensorSource& source, const std::string& name,
                const std::vector<std::int64_t>& shape) {
  const std::string where = source.file->path() + ", tensor '" + source.entry->name + "'";
  if (source.entry->shape != shape) {
    throw Error(ErrorKind::kInput,
                {.what = "expected shape " + shape_text(shape) + " for '" + name + "', found " +
                         shape_text(source.entry->shape),
                 .where = where,
                 .remedy = "config.json and the weights belong to different models"});
  }
  const auto dtype = io::torch_dtype(source.entry->dtype);
  if (!dtype || !io::is_plain_float(*dtype)) {
    throw Error(ErrorKind::kInput,
                {.what = "dtype " + source.entry->dtype + " is not a weight that can be trained",
                 .where = where,
                 .remedy = "F32, F16, BF16 and F64 are; convert quantized weights first"});
  }
}

bool equal_bytes(const TensorSource& a, const TensorSource& b) {
  if (a.entry->dtype != b.entry->dtype) return false;
  const at::Tensor left = a.file->read(a.entry->name), right = b.file->read(b.entry->name);
  return std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

bool is_known_buffer(std::string_view name) {
  return std::any_of(hf_names().begin(), hf_names().end(), [&](const HfNames& family) {
    return std::any_of(family.buffers.begin(), family.buffers.end(),
                       [&](std::string_view ending) { return name.ends_with(ending); });
  });
}

}  // namespace

void load_parameters(const HfDirectory& directory, std::vector<ParameterInfo>& parameters,
                     const ModelSpec& model) {
  const TieUses ties = tie_uses(model);
  const StoredNames stored = stored_names(model);
  for (ParameterInfo& parameter : parameters) {
    const TensorSource source =
        source_of(directory, parameter.name, parameter.tied_to, ties, stored, model);
    check_fits(source, parameter.name, parameter.global_shape);
    for_each_box(parameter, parameter.tensor.detach(), [&](const Slice& box, at::Tensor part) {
      source.file->read_into(source.entry->name, box, part);
    });
  }
}

void load_buffers(const HfDirectory& directory, std::vector<ParameterInfo>& buffers) {
  for (ParameterInfo& buffer : buffers) {
    const TensorSource source = directory.shards().locate(buffer.name);
    source.file->read_into(source.entry->name, buffer.tensor);
  }
}

std::function<void(const std::string&, at::Tensor&)> stored_values(
    const std::string& path, const std::vector<std::string>& own) {
  return [directory = std::make_shared<const HfDirectory>(path), own](const std::string& name,
                                                                      at::Tensor& value) {
    const bool may_be_missing =
        std::any_of(own.begin(), own.end(),
                    [&](const std::string& pattern) { return matches_pattern(pattern, name); });
    if (may_be_missing && !directory->shards().find(name)) return;
    const TensorSource source = directory->shards().locate(name);
    if (value.is_floating_point()) check_fits(source, name, value.sizes().vec());
    source.file->read_into(source.entry->name, value);
  };
}

std::vector<std::string> check_checkpoint(const HfDirectory& directory, const ModelSpec& model) {
  const TieUses ties = tie_uses(model);
  const StoredNames stored = stored_names(model);
  std::set<std::string> expected;
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      const TensorSource source =
          source_of(directory, parameter.name, parameter.tied_to, ties, stored, model);
      check_fits(source, parameter.name, parameter.shape);
      const std::optional<TensorSource> own = find_stored(directory, parameter.name, stored);
      if (!own) continue;
      expected.insert(own->entry->name);
      if (own->entry == source.entry) continue;
      check_fits(*own, parameter.name, parameter.shape);
      if (!equal_bytes(*own, source)) {
        throw Error(
            ErrorKind::kInput,
            {.what = "config.json ties '" + parameter.name + "' to '" + parameter.tied_to +
                     "', but both are stored with different values",
             .where = own->file->path(),
             .remedy = "set \"tie_word_embeddings\": false in config.json to train them apart"});
      }
    }
  }
  if (model.source)
    for (std::string& name : model.source->other_tensors()) expected.insert(std::move(name));
  std::vector<std::string> unexpected;
  for (std::string& name : directory.names()) {
    if (!expected.contains(name) && !is_known_buffer(name)) unexpected.push_back(std::move(name));
  }
  return unexpected;
}

}  // namespace sluice
