#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/nearest_name.h"
#include "layer/call_place.h"
#include "layer/casted_weights.h"
#include "layer/declared_slices.h"
#include "layer/initialize_chunks.h"
#include "layer/keyed_stream.h"
#include "sluice/error.h"
#include "sluice/layer.h"
#include "sluice/parts/chunk.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string in_quotes(const LayerSpec& layer) {
  return layer.shown_as.empty() ? "layer '" + layer.name + "'" : layer.shown_as;
}

[[noreturn]] void throw_usage(const std::string& what, const std::string& where,
                              const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = where, .remedy = remedy});
}

void check_layer(const LayerSpec& layer) {
  if (!layer.forward)
    throw_usage(in_quotes(layer) + " has no forward function", "LayerSpec",
                "set LayerSpec::forward");
  const std::set<std::string> distinct(layer.writes.begin(), layer.writes.end());
  if (distinct.size() != layer.writes.size()) {
    throw_usage(in_quotes(layer) + " writes one value twice", "LayerSpec::writes",
                "name each output once");
  }
}

Names names_of(const Values& values) {
  Names names;
  for (const auto& [name, tensor] : values) names.push_back(name);
  return names;
}

const at::Tensor& find_value(const std::string& name, const LayerSpec& layer, const Values& live,
                             const Values& batch) {
  if (live.has(name)) return live.get(name);
  if (batch.has(name)) return batch.get(name);
  Names known = names_of(live);
  for (std::string& other : names_of(batch)) known.push_back(std::move(other));
  throw_usage(formatted("{} reads '{}', which is neither in the batch nor written before",
                        in_quotes(layer), name),
              "LayerSpec::reads", suggest_name(name, known));
}

// Detects layers that write in place to batch inputs, which share the caller's storage.
class BatchWriteDetector {
 public:
  void read(const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined() || !version_of(tensor).enabled()) return;
    read_.push_back({&name, &tensor, version_of(tensor).current_version()});
  }
  void require_unwritten(const LayerSpec& layer) const {
    for (const Read& read : read_) {
      if (version_of(*read.tensor).current_version() == read.version) continue;
      throw_usage(in_quotes(layer) + " writes in place to the input '" + *read.name +
                      "' of the batch, which other microbatches and ranks see",
                  "LayerSpec::forward", "write to a copy: " + *read.name + ".clone()");
    }
  }

 private:
  struct Read {
    const std::string* name;
    const at::Tensor* tensor;
    std::uint32_t version = 0;
  };
  static const c10::VariableVersion& version_of(const at::Tensor& tensor) {
    return tensor.unsafeGetTensorImpl()->version_counter();
  }

  std::vector<Read> read_;
};

}  // namespace

Chunk::Chunk(std::vector<LayerSpec> layers, int first_layer, Names inputs, Names outputs)
    : layers_(std::move(layers)),
      first_layer_(first_layer),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      casted_weights_(std::make_unique<CastedWeights>()) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerSpec& layer = layers_[i];
    check_layer(layer);
    const KeyedRandomScope scope(0, 0, layer.name, 0);
    modules_.push_back(layer.make ? layer.make() : std::make_shared<torch::nn::Module>());
    if (!modules_.back())
      throw_usage(in_quotes(layer) + " made no module", "LayerSpec::make", "return a module");
    collect_parameters(i);
  }
  plan_releases();
  share_tied_storage({this});
  for (const ParameterInfo& parameter : parameters_) casted_weights_->add(parameter.tensor);
}

Chunk::~Chunk() = default;
Chunk::Chunk(Chunk&&) noexcept = default;
Chunk& Chunk::operator=(Chunk&&) noexcept = default;

void Chunk::clear_casted_weights() { casted_weights_->clear(); }

void Chunk::collect_parameters(std::size_t index) {
  const LayerSpec& layer = layers_[index];
  DeclaredSlices declared(layer, *modules_[index]);
  int first = first_layer_;  // index in the model; a fused layer counts as several
  for (std::size_t i = 0; i < index; ++i) first += layers_[i].num_layers;
  Names local_names;
  for (const auto& item : modules_[index]->named_parameters()) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined()) continue;
    local_names.push_back(item.key());
    const auto same =
        std::find_if(parameters_.begin(), parameters_.end(),
                     [&](const ParameterInfo& other) { return other.tensor.is_same(tensor); });
    ParameterInfo info;
    info.name = layer.full_name(item.key());
    if (same != parameters_.end()) {
      // A submodule that is registered twice in a layer counts once, under its first name.
      if (same->layer == first) continue;
      throw_usage(formatted("parameter '{}' is the same tensor as '{}'", info.name, same->name),
                  in_quotes(layer),
                  "give each its own tensor and declare the tie in LayerSpec::ties");
    }
    info.tensor = tensor;
    declared.fill(info, item.key());
    info.trainable = tensor.requires_grad();
    info.layer = first;
    for (const auto& [local, first_use] : layer.ties) {
      if (local == item.key()) info.tied_to = first_use;
    }
    parameters_.push_back(std::move(info));
  }
  declared.require_all_found(local_names);
  for (const auto& [local, first_use] : layer.ties) {
    if (!contains(local_names, local)) {
      throw_usage(formatted("{} ties '{}', which is not a parameter of its module",
                            in_quotes(layer), local),
                  "LayerSpec::ties", suggest_name(local, local_names));
    }
  }
}

void Chunk::plan_releases() {
  Names available = inputs_;
  for (const LayerSpec& layer : layers_)
    available.insert(available.end(), layer.writes.begin(), layer.writes.end());
  for (const std::string& name : outputs_) {
    if (!contains(available, name)) {
      throw_usage("no layer of the chunk writes its output '" + name + "'", "Chunk outputs",
                  suggest_name(name, available));
    }
  }
  std::set<std::string> live(outputs_.begin(), outputs_.end());
  release_before_.resize(layers_.size());
  release_after_.resize(layers_.size());
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const LayerSpec& layer = layers_[i];
    for (const std::string& name : layer.writes) {
      if (!live.erase(name)) release_after_[i].push_back(name);
    }
    for (const std::string& name : layer.reads) {
      if (live.insert(name).second) release_before_[i].push_back(name);
    }
  }
  for (const std::string& name : inputs_) {
    if (!live.count(name)) unused_inputs_.push_back(name);
  }
}

std::vector<at::Tensor> Chunk::run_layer(std::size_t i, const std::vector<at::Tensor>& read,
                                         std::uint64_t seed, std::int64_t step,
                                         std::int64_t microbatch, const KeyedStream* begin) {
  if (begin) {
    random_numbers_ = std::make_unique<KeyedStream>(begin->copy());
  } else if (!layers_[i].continues || !random_numbers_) {
    random_numbers_ = std::make_unique<KeyedStream>(seed, step, layers_[i].name, microbatch);
  }
  const KeyedStreamScope scope(*random_numbers_);
  const CastedWeightsScope casts(*casted_weights_);
  const detail::LayerPlace place(layers_[i].name, parameters_);
  try {
    return layers_[i].forward(*modules_[i], read);
  } catch (...) {
    failed_layer_ = in_quotes(layers_[i]);
    throw;
  }
}

std::shared_ptr<const KeyedStream> Chunk::random_numbers(std::size_t i) const {
  if (!layers_[i].continues || !random_numbers_) return nullptr;
  return std::make_shared<const KeyedStream>(random_numbers_->copy());
}

std::size_t Chunk::index_of(const ParameterInfo& parameter) const {
  int behind = first_layer_;
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    behind += layers_[i].num_layers;
    if (parameter.layer < behind) return i;
  }
  return layers_.size() - 1;
}

Values Chunk::forward(Values received, const Values& batch, std::uint64_t seed, std::int64_t step,
                      std::int64_t microbatch, const LayerCall& call) {
  first_layer_outputs_.clear();
  bool differentiable_input = false;
  for (const auto& [name, tensor] : received)
    differentiable_input |= tensor.defined() && tensor.requires_grad();

  Values live = std::move(received);
  BatchWriteDetector of_batch;
  for (const std::string& name : unused_inputs_) live.erase(name);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerSpec& layer = layers_[i];
    std::vector<at::Tensor> read;
    for (const std::string& name : layer.reads) {
      read.push_back(find_value(name, layer, live, batch));
      if (!live.has(name)) of_batch.read(name, batch.get(name));
    }
    for (const std::string& name : release_before_[i]) live.erase(name);

    std::vector<at::Tensor> written =
        call ? call(i, read) : run_layer(i, read, seed, step, microbatch);
    of_batch.require_unwritten(layer);
    if (written.size() != layer.writes.size()) {
      throw_usage(formatted("{} returned {} values, but declares {}", in_quotes(layer),
                            written.size(), layer.writes.size()),
                  "LayerSpec::writes", "name every value that LayerSpec::forward returns");
    }
    // If no stage input needs a gradient, the input-gradient pass ends at these outputs. One
    // layer's outputs suffice, because the backward passes all later layers first.
    if (!differentiable_input && first_layer_outputs_.empty()) {
      for (const at::Tensor& tensor : written) {
        if (tensor.defined() && tensor.requires_grad()) first_layer_outputs_.push_back(tensor);
      }
    }
    for (std::size_t k = 0; call && k < read.size(); ++k) {
      if (live.has(layer.reads[k])) live.set(layer.reads[k], std::move(read[k]));
    }
    for (std::size_t k = 0; k < written.size(); ++k)
      live.set(layer.writes[k], std::move(written[k]));
    for (const std::string& name : release_after_[i]) live.erase(name);
  }

  Values outputs;
  for (const std::string& name : outputs_) outputs.set(name, live.get(name));
  return outputs;
}

std::optional<std::vector<TensorMeta>> Chunk::output_metas(const std::vector<TensorMeta>& inputs,
                                                           const Values& batch) const {
  std::vector<std::pair<std::string, TensorMeta>> known;
  const auto set = [&](const std::string& name, const TensorMeta& meta) {
    const auto old = std::find_if(known.begin(), known.end(),
                                  [&](const auto& item) { return item.first == name; });
    if (old != known.end()) {
      old->second = meta;
    } else {
      known.emplace_back(name, meta);
    }
  };
  const auto get = [&](const std::string& name) -> TensorMeta {
    for (const auto& [other, meta] : known) {
      if (other == name) return meta;
    }
    return meta_of(batch.get(name));
  };
  for (std::size_t k = 0; k < inputs_.size(); ++k) set(inputs_[k], inputs.at(k));
  for (const LayerSpec& layer : layers_) {
    if (!layer.shapes) return std::nullopt;
    std::vector<TensorMeta> read;
    for (const std::string& name : layer.reads) read.push_back(get(name));
    const std::vector<TensorMeta> written = layer.shapes(read);
    if (written.size() != layer.writes.size()) {
      throw_usage(formatted("{} gives {} shapes, but writes {} values", in_quotes(layer),
                            written.size(), layer.writes.size()),
                  "LayerSpec::shapes", "return one TensorMeta for each name of LayerSpec::writes");
    }
    for (std::size_t k = 0; k < layer.writes.size(); ++k) set(layer.writes[k], written.at(k));
  }
  std::vector<TensorMeta> outputs;
  for (const std::string& name : outputs_) outputs.push_back(get(name));
  return outputs;
}

std::vector<std::pair<std::string, at::Tensor>> Chunk::buffers() const {
  std::vector<std::pair<std::string, at::Tensor>> buffers;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (const auto& item : modules_[i]->named_buffers()) {
      if (!item.value().defined()) continue;
      std::string name = layers_[i].full_name(item.key());
      if (seen.insert(name).second) buffers.emplace_back(std::move(name), item.value());
    }
  }
  return buffers;
}

std::vector<std::shared_ptr<torch::nn::Module>> Chunk::modules() const {
  std::vector<std::shared_ptr<torch::nn::Module>> all;
  for (const auto& module : modules_) {
    for (auto& each : module->modules()) all.push_back(std::move(each));
  }
  return all;
}

void Chunk::train(bool on) {
  for (const auto& module : modules_) module->train(on);
}

std::vector<at::Tensor> Chunk::take_first_layer_outputs() {
  return std::exchange(first_layer_outputs_, {});
}
std::string Chunk::take_failed_layer() { return std::exchange(failed_layer_, {}); }

}  // namespace sluice
