// Measures each layer as a separate chunk, with the given batch size and with twice the rows.
#include "sluice/model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/format.h"
#include "layer/casted_weights.h"
#include "layer/crossing.h"
#include "layer/flop_counter.h"
#include "layer/gradient_sum.h"
#include "layer/graph_backward.h"
#include "layer/initialize_chunks.h"
#include "layer/owner_of.h"
#include "sluice/error.h"
#include "sluice/parts/chunk.h"
#include "sluice/parts/observers.h"

namespace sluice {
namespace {

constexpr std::size_t kSizes = 2;  // the given rows, and twice as many

struct Value {
  std::array<TensorMeta, kSizes> metas;
  bool in_batch = false, differentiable = false;
};
using ValueTable = std::map<std::string, Value>;

constexpr std::array kParts = {&LayerCost::forward_flops, &LayerCost::input_flops,
                               &LayerCost::weight_flops,  &LayerCost::after_forward,
                               &LayerCost::after_input,   &LayerCost::on_entry,
                               &LayerCost::at_end,        &LayerCost::in_forward};
using Numbers = std::array<double, kParts.size()>;

at::Tensor filled(const TensorMeta& meta, at::Device device) {
  if (meta.dtype == at::ScalarType::Undefined) return {};
  const auto options = at::TensorOptions(meta.dtype).device(device);
  return at::isIntegralType(meta.dtype, /*includeBool=*/true) ? at::zeros(meta.sizes, options)
                                                              : at::ones(meta.sizes, options);
}

class Probe {
 public:
  Probe(const LayerSpec& layer, int index, const ValueTable& values)
      : chunk_({layer}, index, inputs_of(layer, values), layer.writes),
        sums_(make_sums(chunk_.parameters())),
        make_backward_(graph_backward(chunk_, sums_, "describe")),
        values_(values) {
    initialize_parameters(chunk_, 0);
    for (const std::string& name : layer.reads) {
      if (values.at(name).in_batch) batch_names_.push_back(name);
    }
    if (!parameters().empty()) device_ = parameters().front().tensor.device();
  }

  const std::vector<ParameterInfo>& parameters() const { return chunk_.parameters(); }
  const std::vector<TensorMeta>& written() const { return written_; }
  const std::vector<bool>& differentiable() const { return differentiable_; }

  Numbers run(std::size_t size) {
    run_backward(size, /*split=*/false);  // warm-up: modules may allocate in their first forward
    const auto alone = static_cast<double>(run_alone(size));
    const Bytes whole = run_backward(size, /*split=*/false);
    const Bytes split = run_backward(size, /*split=*/true);
    const auto above = static_cast<double>(std::max(whole.above, split.above));
    // A layer whose inputs need no gradient runs its backward last in the stage, when other layers'
    // memory is free.
    const auto kept = static_cast<double>(split.after_forward);
    return {flops_.forward,
            flops_.input,
            flops_.weight,
            kept,
            static_cast<double>(split.after_input),
            hands_gradient_on_ ? above : 0.0,
            hands_gradient_on_ ? 0.0 : kept + above,
            alone};
  }
  double casted_weights() { return static_cast<double>(chunk_.casted_weights().bytes()); }
  std::string class_name() { return chunk_.module(0).name(); }

 private:
  struct Bytes {
    std::int64_t after_forward = 0, after_input = 0;
    std::int64_t above = 0;  // peak during the backward, minus the bytes at its start
  };

  static std::vector<std::string> inputs_of(const LayerSpec& layer, const ValueTable& values) {
    std::vector<std::string> names;
    for (const std::string& name : layer.reads) {
      const bool listed = std::find(names.begin(), names.end(), name) != names.end();
      if (!listed && !values.at(name).in_batch) names.push_back(name);
    }
    return names;
  }

  // Keeps alive only the tensors that a stage would. Returns the outputs' metas.
  std::vector<TensorMeta> run_forward(std::size_t size) {
    Values batch;
    for (const std::string& name : batch_names_)
      batch.set(name, filled(values_.at(name).metas[size], device_));
    Values inputs;
    hands_gradient_on_ = false;
    for (const std::string& name : chunk_.inputs()) {
      const Value& value = values_.at(name);
      at::Tensor input = filled(value.metas[size], device_);
      if (value.differentiable) input.set_requires_grad(at::GradMode::is_enabled());
      inputs.set(name, std::move(input));
      hands_gradient_on_ |= value.differentiable;
    }
    Values outputs;
    chunk_.casted_weights().fill();
    backward_ = make_backward_(chunk_, sums_);
    {
      const FlopCounter counter(parameters());
      outputs = backward_->forward({0, 1, 0}, std::move(inputs), batch);
      flops_ = counter.counts();
    }
    std::vector<at::Tensor> roots;
    written_.clear();
    differentiable_.clear();
    for (const auto& [name, tensor] : outputs) {
      roots.push_back(tensor);
      written_.push_back(meta_of(tensor));
      differentiable_.push_back(tensor.defined() && tensor.requires_grad());
    }
    for (auto& sum : sums_)
      if (sum) static_cast<ShardedSum&>(*sum).reserve();
    backward_->keep(roots);
    return written_;
  }

  // Peak bytes of a forward without backward.
  std::int64_t run_alone(std::size_t size) {
    const at::NoGradGuard no_grad;
    MemoryLedger ledger(1);
    const MemoryLedger::Scope scope(ledger, 0);
    run_forward(size);
    backward_.reset();
    return ledger.peak_bytes(0);
  }

  Bytes run_backward(std::size_t size, bool split) {
    MemoryLedger ledger(1);
    const MemoryLedger::Scope scope(ledger, 0);
    const std::vector<TensorMeta> metas = run_forward(size);
    Bytes bytes;
    bytes.after_forward = ledger.live_bytes(0);
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < metas.size(); ++i)
      gradients.push_back(differentiable_[i] ? filled(metas[i], device_) : at::Tensor());
    ledger.reset_peak(0);
    if (!split) {
      backward_->full(std::move(gradients));
      backward_.reset();
      bytes.above = ledger.peak_bytes(0) - bytes.after_forward;
      return bytes;
    }
    backward_->input(std::move(gradients), /*hold_weights=*/false);
    bytes.above = ledger.peak_bytes(0) - bytes.after_forward;
    bytes.after_input = ledger.live_bytes(0);
    ledger.reset_peak(0);
    backward_->weight();
    backward_.reset();
    bytes.above = std::max(bytes.above, ledger.peak_bytes(0) - bytes.after_input);
    return bytes;
  }

  Chunk chunk_;
  GradientSums sums_;
  ChunkBackwardMaker make_backward_;
  std::unique_ptr<ChunkBackward> backward_;
  const ValueTable& values_;
  std::vector<std::string> batch_names_;
  at::Device device_ = at::kCPU;
  bool hands_gradient_on_ = false;
  FlopCounter::Counts flops_;
  std::vector<TensorMeta> written_;
  std::vector<bool> differentiable_;
};

std::int64_t rows_of(const BatchMetas& batch) {
  const auto refuse = [](const std::string& what) {
    throw Error(
        ErrorKind::kUsage,
        {.what = what,
         .where = "metas of the batch",
         .remedy = "give every input of the batch the same first size, the number of rows"});
  };
  if (batch.empty()) refuse("the batch has no inputs");
  std::int64_t rows = 0;
  for (const auto& [name, meta] : batch) {
    if (meta.dtype == at::ScalarType::Undefined) continue;
    if (meta.sizes.empty() || meta.sizes.front() < 1) refuse("'" + name + "' has no rows");
    if (rows != 0 && meta.sizes.front() != rows) {
      refuse(formatted("'{}' has {} rows, but '{}' has {}", name, meta.sizes.front(),
                       batch.front().first, rows));
    }
    rows = meta.sizes.front();
  }
  return rows;
}

ValueTable values_of(const BatchMetas& batch) {
  ValueTable values;
  for (const auto& [name, meta] : batch) {
    TensorMeta twice = meta;
    if (!twice.sizes.empty()) twice.sizes.front() *= 2;
    values[name] = {{meta, twice}, /*in_batch=*/true, /*differentiable=*/false};
  }
  return values;
}

ValueSpec value_spec(const std::string& name, const Value& value, std::int64_t rows) {
  const auto& [once, twice] = value.metas;
  if (once.dtype == at::ScalarType::Undefined) return {name, {0}};
  ValueSpec spec{name, once.sizes, dtype_name(once.dtype)};
  const bool has_rows = !spec.sizes.empty() && spec.sizes.front() == rows &&
                        twice.sizes.size() == once.sizes.size() && twice.sizes.front() == 2 * rows;
  if (has_rows) spec.sizes.front() = kMicrobatchRows;
  return spec;
}

std::vector<ParameterSpec> parameter_specs(const std::vector<ParameterInfo>& parameters) {
  std::vector<ParameterSpec> specs;
  specs.reserve(parameters.size());
  for (const ParameterInfo& parameter : parameters) {
    specs.push_back({parameter.name, parameter.global_shape, parameter.tied_to,
                     dtype_name(parameter.tensor.scalar_type()), parameter.trainable});
  }
  return specs;
}

// Fits each cost as constant + per_row * rows.
LayerCost cost_of(const std::array<Numbers, kSizes>& measured, std::int64_t rows) {
  LayerCost cost;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const double more = measured[1][i] - measured[0][i];
    cost.*kParts[i] = {.constant = measured[0][i] - more,
                       .per_row = more / static_cast<double>(rows)};
  }
  return cost;
}

void set_by_shapes(const LayerSpec& layer, ValueTable& values) {
  std::array<std::vector<TensorMeta>, kSizes> written;
  for (std::size_t size = 0; size < kSizes; ++size) {
    std::vector<TensorMeta> read;
    for (const std::string& name : layer.reads) read.push_back(values.at(name).metas[size]);
    written[size] = layer.shapes(read);
  }
  for (std::size_t k = 0; k < layer.writes.size(); ++k) {
    values[layer.writes[k]] = {{written[0].at(k), written[1].at(k)},
                               /*in_batch=*/false,
                               at::isFloatingType(written[0].at(k).dtype)};
  }
}

int first_at_root(const std::vector<LayerSpec>& layers) {
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [](const LayerSpec& layer) { return layer.prefix == ""; });
  return found == layers.end() ? -1 : static_cast<int>(found - layers.begin());
}

}  // namespace

ModelSpec describe(const std::vector<LayerSpec>& layers) {
  ModelSpec model;
  for (const LayerSpec& layer : layers) {
    LayerInfo& info = model.layers.emplace_back();
    info.name = layer.name;
    info.role = layer.role;
    info.reads = layer.reads;
    info.class_name = layer.class_name;
    for (const std::string& name : layer.writes) info.writes.push_back({name, {}});
    if (layer.cost) info.cost = *layer.cost;
  }
  std::set<std::string> first_uses;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const auto& [local, first] : layers[i].ties) {
      model.layers[i].parameters.push_back({layers[i].full_name(local), {}, first});
      int owner = owner_of(first, layers);
      if (owner < 0) owner = first_at_root(layers);
      if (owner >= 0 && first_uses.insert(first).second)
        model.layers[owner].parameters.push_back({first, {}});
    }
  }
  return model;
}

ModelSpec describe(const std::vector<LayerSpec>& layers, const BatchMetas& batch) {
  const at::AutoGradMode grad_mode(true);
  const std::int64_t rows = rows_of(batch);
  ValueTable values = values_of(batch);
  ModelSpec model;
  std::vector<std::string> batch_names;
  for (const auto& [name, meta] : batch) {
    batch_names.push_back(name);
    model.inputs.push_back(value_spec(name, values.at(name), rows));
  }
  values_crossing_cuts(layers, {}, batch_names, {});  // throws for values that no layer writes
  for (const LayerSpec& layer : layers) {
    Probe probe(layer, static_cast<int>(model.layers.size()), values);
    LayerInfo& info = model.layers.emplace_back();
    info.name = layer.name;
    info.role = layer.role;
    info.parameters = parameter_specs(probe.parameters());
    info.parameters_known = true;
    info.class_name = layer.class_name.empty() ? probe.class_name() : layer.class_name;
    info.reads = layer.reads;
    if (layer.cost && layer.shapes) {
      info.cost = *layer.cost;
      set_by_shapes(layer, values);
    } else {
      std::array<Numbers, kSizes> measured;
      ValueTable written;
      for (std::size_t size = 0; size < kSizes; ++size) {
        measured[size] = probe.run(size);
        for (std::size_t k = 0; k < layer.writes.size(); ++k) {
          Value& value = written[layer.writes[k]];
          value.metas[size] = probe.written()[k];
          value.differentiable = probe.differentiable()[k];
        }
      }
      info.cost = layer.cost.value_or(cost_of(measured, rows));
      if (!layer.cost) info.cost.casted_weights = probe.casted_weights();
      for (auto& [name, value] : written) values[name] = std::move(value);
    }
    for (const std::string& name : layer.writes)
      info.writes.push_back(value_spec(name, values.at(name), rows));
  }
  return model;
}

}  // namespace sluice
