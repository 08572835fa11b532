#include "plan/predict/layer_times.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/content_hash.h"
#include "base/format.h"
#include "base/system_text.h"
#include "base/text.h"
#include "plan/expert_parallel.h"
#include "plan/optimizer_state.h"
#include "plan/option_words.h"
#include "plan/predict/activation_memory.h"
#include "plan/predict/memory.h"
#include "plan/slices.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr double kGiga = 1e9;
constexpr std::size_t kMaxCpuInfo = std::size_t{16} << 20;

double held_bytes(const LayerInfo& layer, OptimizerKind optimizer) {
  constexpr double kFloat32 = 4;
  const double moments = detail::moments_of(optimizer);
  double bytes = 0;
  for (const ParameterSpec& parameter : layer.parameters) {
    const auto count = static_cast<double>(parameter.numel());
    bytes += static_cast<double>(dtype_bytes(parameter.dtype)) * count;
    if (parameter.trainable) bytes += (1 + moments) * kFloat32 * count;
  }
  return bytes + layer.cost.casted_weights;
}

// Fused operators never return their memory pools, so count these as kept.
void set_activations(const ActivationBytes& bytes, LayerTime& of) {
  const auto as_double = [](std::int64_t count) { return static_cast<double>(count); };
  of.kept_bytes = as_double(bytes.after_forward) + as_double(bytes.pooled_until_input) +
                  as_double(bytes.pooled_until_weight);
  of.kept_after_input_bytes = as_double(bytes.after_input) + as_double(bytes.pooled_until_weight) +
                              as_double(bytes.pooled_after_input);
  of.running_bytes = as_double(std::max(bytes.on_entry, bytes.at_end)) +
                     as_double(bytes.pooled_in_backward) + as_double(bytes.largest_after_input);
}

double part_held(const LayerInfo& layer, const TensorParallel& how) {
  double held = 0, whole = 0;
  for (const ParameterSpec& parameter : layer.parameters) {
    held += static_cast<double>(detail::most_held(parameter, how));
    whole += static_cast<double>(parameter.numel());
  }
  return whole > 0 ? held / whole : 1.0;
}

// Adds the exchanges between tensor-parallel ranks. With sequence parallelism, attention and MLP
// each gather rows at the start and scatter sums at the end. Without it, each sums once, which
// sends as much. The backward mirrors this. An embedding exchanges at its end. A head exchanges at
// its start, and sums three small tensors for the loss.
void add_exchanges(const LayerInfo& info, const TensorParallel& how, const LayerTimes& times,
                   LayerTime& layer) {
  double bytes = 0;
  for (const ValueSpec& value : info.writes)
    if (value.name == "hidden") bytes += value.bytes_at(times.of.microbatch);
  const double sent = bytes * (how.degree - 1) / how.degree;
  const auto seconds = [&](int count, double of_each) {
    return count * (times.latency + (times.bandwidth > 0 ? of_each / times.bandwidth : 0.0));
  };
  const double sum = seconds(how.sequence ? 2 : 1, how.sequence ? sent : 2 * sent);
  const double way = seconds(1, how.sequence ? sent : 2 * sent);
  double forward = 2 * sum, input = 2 * sum;
  if (info.role == LayerRole::kEmbedding) {
    forward = way;
    input = 0;
    layer.backward_weight += how.sequence ? way : 0;
    layer.backward += how.sequence ? way : 0;
  } else if (info.role == LayerRole::kHead) {
    forward = seconds(3, 0) + (how.sequence ? way : 0);
    input = way;
  }
  layer.forward += forward;
  layer.backward_input += input;
  layer.backward += input;
}

void compare(const std::string& what, const std::string& theirs, const std::string& own,
             std::vector<std::string>& differences) {
  if (theirs == own) return;
  const auto shown = [](const std::string& text) { return text.empty() ? "none" : text; };
  differences.push_back(what + " " + shown(theirs) + ", not " + shown(own));
}

std::string layer_difference(const LayerTimes& times, const ModelSpec& model) {
  const std::size_t count = std::max(times.layers.size(), model.layers.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::string at = formatted("layers[{}]", i);
    if (i >= times.layers.size())
      return at + " is missing, where the model has '" + model.layers[i].name + "'";
    const LayerTime& layer = times.layers[i];
    if (i >= model.layers.size())
      return at + " is '" + layer.name + "', where the model has no more layers";
    const LayerInfo& expected = model.layers[i];
    if (layer.name != expected.name)
      return at + " is '" + layer.name + "', where the model has '" + expected.name + "'";
    if (layer.role != expected.role)
      return at + " ('" + layer.name + "') has another role than in the model";
  }
  return {};
}

std::string model_difference(const LayerTimes& times, const ModelSpec& model) {
  std::string layers = layer_difference(times, model);
  if (!layers.empty()) return layers;
  return times.of.family == model.family
             ? "the model has layers of the same names, but other sizes or frozen layers"
             : "the model has family " + model.family + ", not " + times.of.family;
}

}  // namespace

std::string fingerprint_of(const ModelSpec& model) {
  std::string text = model.family + "\n";
  for (const LayerInfo& layer : model.layers)
    text += layer.name + " " + detail::kind_text(layer) + "\n";
  return content_hash(text);
}

std::string cpu_name() {
  for (const std::string& line : split(read_text_or_empty("/proc/cpuinfo", kMaxCpuInfo), '\n')) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos)
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

std::string require_times_of(const LayerTimes& times, const ModelSpec& model,
                             const TimedRun& wanted) {
  std::vector<std::string> differences;
  const TimedRun& of = times.of;
  // Compare also the layers, because an edited file may not match its fingerprint.
  if (of.model != wanted.model || !layer_difference(times, model).empty())
    differences.push_back(model_difference(times, model));
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  compare("microbatch_size", number(of.microbatch.rows), number(wanted.microbatch.rows),
          differences);
  compare("seq_len", number(of.microbatch.length), number(wanted.microbatch.length), differences);
  compare("threads_per_rank", number(of.threads_per_rank), number(wanted.threads_per_rank),
          differences);
  compare("dtype", of.dtype, wanted.dtype, differences);
  compare("mixed_precision", of.mixed_precision, wanted.mixed_precision, differences);
  compare("operators", of.operators, wanted.operators, differences);
  compare("optimizer", of.optimizer, wanted.optimizer, differences);
  compare("recomputed", of.recomputed, wanted.recomputed, differences);
  if (!differences.empty()) {
    throw Error(ErrorKind::kInput,
                {.what = "the costs belong to another run: " + join(differences, "; "),
                 .where = times.file,
                 .remedy = "measure them again: sluice plan CONFIG.toml "
                           "--measure COSTS.json"});
  }
  if (of.cpu == wanted.cpu || of.cpu.empty() || wanted.cpu.empty()) return {};
  return "the costs of " + times.file + " were measured on '" + of.cpu +
         "', but this machine has '" + wanted.cpu + "'";
}

LayerTimes without_times(const ModelSpec& model, const MicrobatchShape& microbatch,
                         OptimizerKind optimizer) {
  LayerTimes times;
  std::vector<int> all(model.layers.size());
  std::iota(all.begin(), all.end(), 0);
  const double masks = detail::mask_bytes(model, all, microbatch.length);
  for (const LayerInfo& layer : model.layers) {
    LayerTime& of = times.layers.emplace_back();
    of.name = layer.name;
    of.role = layer.role;
    of.held_bytes = held_bytes(layer, optimizer);
    set_activations(layer_activations(layer, microbatch), of);
    if (layer.role == LayerRole::kBlock) of.running_bytes += masks;
    for (const ValueSpec& value : layer.writes) of.output_bytes += value.bytes_at(microbatch);
  }
  times.of.family = model.family;
  times.of.model = fingerprint_of(model);
  times.of.microbatch = microbatch;
  times.of.optimizer = detail::word_of(detail::words_of(optimizer), optimizer);
  return times;
}

LayerTimes counted_times(const ModelSpec& model, const MicrobatchShape& microbatch,
                         OptimizerKind optimizer) {
  LayerTimes times = without_times(model, microbatch, optimizer);
  times.unit = "GFLOP";
  times.counted = true;
  double all = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerCost& cost = model.layers[i].cost;
    LayerTime& of = times.layers[i];
    of.forward = cost.forward_flops.at(microbatch) / kGiga;
    of.backward_input = cost.input_flops.at(microbatch) / kGiga;
    of.backward_weight = cost.weight_flops.at(microbatch) / kGiga;
    of.backward = of.backward_input + of.backward_weight;
    all += of.forward;
  }
  if (all > 0) return times;
  times.unit = "";
  for (LayerTime& layer : times.layers) {
    if (layer.role != LayerRole::kBlock) continue;
    layer.forward = layer.backward_input = layer.backward_weight = 1;
    layer.backward = 2;
  }
  return times;
}

LayerTimes of_one_share(LayerTimes times, const ModelSpec& whole, const ModelSpec& share,
                        const TensorParallel& how) {
  if (how.degree == 1 || times.elsewhere) return times;
  const MicrobatchShape& shape = times.of.microbatch;
  const double part = 1.0 / how.degree;
  for (std::size_t i = 0; i < times.layers.size(); ++i) {
    const LayerInfo& info = share.layers[i];
    LayerTime& layer = times.layers[i];
    const bool is_divided = detail::is_divided(info);
    const auto part_of = [&](ShapePolynomial LayerCost::*flops) {
      const double all = (whole.layers[i].cost.*flops).at(shape);
      if (info.operators && all > 0) return (info.cost.*flops).at(shape) / all;
      return is_divided || how.sequence ? part : 1.0;
    };
    layer.forward *= part_of(&LayerCost::forward_flops);
    const double input = layer.backward_input * part_of(&LayerCost::input_flops),
                 weight = layer.backward_weight * part_of(&LayerCost::weight_flops),
                 both = layer.backward_input + layer.backward_weight;
    if (both > 0) layer.backward *= (input + weight) / both;
    layer.backward_input = input;
    layer.backward_weight = weight;
    const double held = part_held(info, how);
    for (double* each : {&layer.held_bytes, &layer.optimizer_step, &layer.cast}) *each *= held;
    if (info.operators) set_activations(layer_activations(info, shape), layer);
    if (is_divided) add_exchanges(info, how, times, layer);
    if (how.sequence) layer.output_bytes *= part;
  }
  return times;
}

LayerTimes with_shared_experts(LayerTimes times, const ModelSpec& model,
                               const PipelineOptions& options) {
  const int degree = options.expert_parallel.degree;
  if (degree == 1) return times;
  for (std::size_t i = 0; i < times.layers.size(); ++i) {
    const LayerInfo& info = model.layers[i];
    LayerTime& layer = times.layers[i];
    if (detail::num_experts(info) == 0) continue;
    double bytes = 0, held = 0, whole = 0;
    for (const ValueSpec& value : info.writes)
      if (value.name == "hidden") bytes += value.bytes_at(times.of.microbatch);
    for (const ParameterSpec& parameter : info.parameters) {
      held += static_cast<double>(detail::most_held(info, parameter, options));
      whole += static_cast<double>(detail::most_held(parameter, options.tensor_parallel));
    }
    for (double* each : {&layer.held_bytes, &layer.optimizer_step, &layer.cast})
      *each *= whole > 0 ? held / whole : 1.0;
    // Tokens go to the experts and results come back. So do their gradients.
    const double sent = bytes * detail::experts_per_token(info) * (degree - 1) / degree;
    const double exchanges =
        2 * (times.latency + (times.bandwidth > 0 ? sent / times.bandwidth : 0.0));
    layer.forward += exchanges;
    layer.backward_input += exchanges;
    layer.backward += exchanges;
  }
  return times;
}

LayerTimes at_speed(LayerTimes counted, double flops, double bandwidth) {
  if (counted.unit != "GFLOP") {
    throw Error(ErrorKind::kUsage, {.what = "the model's layers have no counted operations",
                                    .where = "--flops",
                                    .remedy = "leave it out"});
  }
  const double seconds = kGiga / flops;
  for (LayerTime& layer : counted.layers) {
    for (double* time :
         {&layer.forward, &layer.backward_input, &layer.backward_weight, &layer.backward})
      *time *= seconds;
  }
  counted.unit = "s";
  counted.bandwidth = bandwidth;
  return counted;
}

ModelSpec model_of_times(const LayerTimes& times) {
  ModelSpec model;
  model.family = times.of.family;
  for (const LayerTime& layer : times.layers) {
    LayerInfo& info = model.layers.emplace_back();
    info.name = layer.name;
    info.role = layer.role;
  }
  return model;
}

double step_time(const LayerTime& layer, int num_microbatches) {
  return num_microbatches * (layer.forward + layer.backward_input + layer.backward_weight) +
         layer.optimizer_step + layer.cast;
}

std::vector<double> step_times(const LayerTimes& times, int num_microbatches) {
  std::vector<double> result;
  for (const LayerTime& layer : times.layers) result.push_back(step_time(layer, num_microbatches));
  return result;
}

Costs stage_costs(const LayerTimes& times, const Partition& partition) {
  Costs costs;
  for (const StageContent& stage : partition.stages) {
    StageCosts sum;
    for (const int index : stage.layers) {
      const LayerTime& layer = times.layers.at(static_cast<std::size_t>(index));
      const bool again =
          times.counted && std::find(stage.recomputed.begin(), stage.recomputed.end(), index) !=
                               stage.recomputed.end();
      const double more = again ? layer.forward : 0;
      sum.forward += layer.forward;
      sum.backward_input += layer.backward_input + more;
      sum.backward_weight += layer.backward_weight;
      sum.backward += layer.backward + more;
      sum.optimizer_step += layer.optimizer_step + layer.cast;
      sum.kept_bytes += layer.kept_bytes;
      sum.kept_after_input_bytes += layer.kept_after_input_bytes;
      sum.held_bytes += layer.held_bytes;
      sum.running_bytes = std::max(sum.running_bytes, layer.running_bytes);
    }
    costs.per_stage.push_back(sum);
    const bool is_last = stage.stage + 1 == partition.num_stages();
    if (!is_last) {
      costs.message_bytes.push_back(
          times.layers.at(static_cast<std::size_t>(stage.layers.back())).output_bytes);
    }
  }
  costs.latency = times.latency;
  costs.bandwidth = times.bandwidth;
  costs.action = times.action;
  costs.reduce_loss = times.reduce_loss;
  costs.reduce_norm = times.reduce_norm;
  costs.parallel_ranks = times.parallel_ranks;
  costs.file = times.file;
  return costs;
}

}  // namespace sluice
