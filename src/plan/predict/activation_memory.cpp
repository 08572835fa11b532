#include "plan/predict/activation_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/saturate.h"

namespace sluice {
namespace {

std::int64_t whole_bytes(double bytes) {
  const double whole = std::round(bytes);
  return whole < static_cast<double>(kTooMuch) ? static_cast<std::int64_t>(whole) : kTooMuch;
}

std::int64_t bytes_of(const ShapePolynomial& cost, const MicrobatchShape& shape) {
  return whole_bytes(cost.at(shape));
}

// Returns the peak among layers that keep no activation. Others never need more than what they
// keep.
std::int64_t forward_peak(const ModelSpec& model, const StageContent& stage,
                          const MicrobatchShape& shape) {
  std::int64_t kept = 0, peak = 0;
  for (const int index : stage.layers) {
    const ActivationBytes layer = layer_activations(model.layers.at(index), shape);
    const bool keeps = stage.backward != StageBackward::kNone && layer.after_forward > 0;
    if (!keeps) peak = std::max(peak, saturating_add(kept, layer.in_forward));
    if (keeps) kept = saturating_add(kept, layer.after_forward);
  }
  return peak;
}

}  // namespace

ActivationBytes layer_activations(const LayerInfo& layer, const MicrobatchShape& shape) {
  const LayerCost& cost = layer.cost;
  return {.after_forward = bytes_of(cost.after_forward, shape),
          .after_input = bytes_of(cost.after_input, shape),
          .on_entry = std::max(bytes_of(cost.on_entry, shape), bytes_of(cost.in_weight, shape)),
          .at_end = bytes_of(cost.at_end, shape),
          .in_forward = bytes_of(cost.in_forward, shape),
          .pooled_until_input = bytes_of(cost.pooled_until_input, shape),
          .pooled_until_weight = bytes_of(cost.pooled_until_weight, shape),
          .pooled_after_input = bytes_of(cost.pooled_after_input, shape),
          .largest_after_input = bytes_of(cost.pooled_after_input, shape),
          .pooled_in_backward = bytes_of(cost.pooled_in_backward, shape),
          .pooled_in_forward = bytes_of(cost.pooled_in_forward, shape),
          .casted_weights = whole_bytes(cost.casted_weights)};
}

namespace {

void add_pooled(const ActivationBytes& layer, ActivationBytes& sum) {
  sum.pooled_until_input = saturating_add(sum.pooled_until_input, layer.pooled_until_input);
  sum.pooled_until_weight = saturating_add(sum.pooled_until_weight, layer.pooled_until_weight);
  sum.pooled_after_input = saturating_add(sum.pooled_after_input, layer.pooled_after_input);
  sum.largest_after_input = std::max(sum.largest_after_input, layer.largest_after_input);
  sum.pooled_in_backward = std::max(sum.pooled_in_backward, layer.pooled_in_backward);
  sum.pooled_in_forward = std::max(sum.pooled_in_forward, layer.pooled_in_forward);
}

class Pool {
 public:
  void count(ActionKind kind, const ActivationBytes& stage) {
    switch (kind) {
      case ActionKind::kForward:
        // Assume that layers that keep nothing run first, because later layers reuse their memory.
        with_forward_ = std::max(with_forward_,
                                 saturating_add(saturating_add(until_input_.now, until_weight_.now),
                                                stage.pooled_in_forward));
        take(until_input_, stage.pooled_until_input);
        take(until_weight_, stage.pooled_until_weight);
        return;
      case ActionKind::kBackward:
        take(after_input_, stage.largest_after_input);
        give(after_input_, stage.largest_after_input);
        give(until_input_, stage.pooled_until_input);
        give(until_weight_, stage.pooled_until_weight);
        break;
      case ActionKind::kBackwardInput:
        give(until_input_, stage.pooled_until_input);
        take(after_input_, stage.pooled_after_input);
        break;
      case ActionKind::kBackwardWeight:
        give(until_weight_, stage.pooled_until_weight);
        give(after_input_, stage.pooled_after_input);
        return;
      default:
        return;
    }
    in_backward_ = std::max(in_backward_, stage.pooled_in_backward);
  }
  std::int64_t bytes() const {
    const std::int64_t until_later =
        std::max(saturating_add(until_input_.most, until_weight_.most), with_forward_);
    return saturating_add(until_later, saturating_add(after_input_.most, in_backward_));
  }

 private:
  struct Bytes {
    std::int64_t now = 0, most = 0;
  };
  static void take(Bytes& bytes, std::int64_t more) {
    bytes.now = saturating_add(bytes.now, more);
    bytes.most = std::max(bytes.most, bytes.now);
  }
  static void give(Bytes& bytes, std::int64_t less) {
    bytes.now = saturating_subtract(bytes.now, less);
  }
  Bytes until_input_, until_weight_, after_input_;
  std::int64_t in_backward_ = 0, with_forward_ = 0;
};

std::int64_t held_inputs(const ModelSpec& model, const StageContent& stage,
                         const MicrobatchShape& shape) {
  std::int64_t bytes = 0;
  for (const ValueSpec& input : model.inputs) {
    if (!input.kept) continue;
    const bool is_read = std::any_of(stage.layers.begin(), stage.layers.end(), [&](int layer) {
      const std::vector<std::string>& reads = model.layers.at(layer).reads;
      return std::find(reads.begin(), reads.end(), input.name) != reads.end();
    });
    if (is_read) bytes = saturating_add(bytes, whole_bytes(input.bytes_at(shape)));
  }
  return bytes;
}

}  // namespace

ActivationBytes stage_activations(const ModelSpec& model, const StageContent& stage,
                                  const MicrobatchShape& shape) {
  ActivationBytes sum;
  std::int64_t on_input = 0, on_weight = 0;
  for (auto index = stage.layers.rbegin(); index != stage.layers.rend(); ++index) {
    const LayerInfo& info = model.layers.at(*index);
    ActivationBytes layer = layer_activations(info, shape);
    layer.on_entry = saturating_add(layer.on_entry, whole_bytes(info.waiting_gradients.at(shape)));
    std::int64_t waiting = 0, ran_again = 0;
    const auto& again = stage.recomputed;
    if (std::find(again.begin(), again.end(), *index) != again.end()) {
      layer.on_entry = saturating_subtract(layer.on_entry, sum.after_forward);
      waiting = sum.after_input;
      ran_again = layer.after_input;
    }
    sum.after_forward = saturating_add(sum.after_forward, layer.after_forward);
    sum.after_input = saturating_add(sum.after_input, layer.after_input);
    sum.casted_weights = saturating_add(sum.casted_weights, layer.casted_weights);
    add_pooled(layer, sum);
    sum.on_entry = std::max(sum.on_entry, layer.on_entry);
    sum.at_end = std::max(sum.at_end, layer.at_end);
    on_input = std::max(on_input, saturating_add(layer.on_entry, waiting));
    on_weight = std::max(on_weight, saturating_subtract(layer.on_entry, ran_again));
  }
  for (const int index : model.free_layers_of(stage.layers)) {
    const ActivationBytes layer = layer_activations(model.free_layers.at(index), shape);
    sum.after_forward = saturating_add(sum.after_forward, layer.after_forward);
    sum.after_input = saturating_add(sum.after_input, layer.after_input);
  }
  const std::int64_t inputs = held_inputs(model, stage, shape);
  sum.after_forward = saturating_add(sum.after_forward, inputs);
  sum.after_input = saturating_add(sum.after_input, inputs);
  sum.more_in_input = saturating_subtract(on_input, sum.on_entry);
  sum.less_in_weight = saturating_subtract(sum.on_entry, on_weight);
  sum.in_forward = forward_peak(model, stage, shape);
  // Subtract after_forward, which is counted separately.
  if (stage.backward != StageBackward::kNone)
    sum.in_forward = sum.in_forward > sum.after_forward
                         ? saturating_subtract(sum.in_forward, sum.after_forward)
                         : 0;
  return sum;
}

RowActivations row_activations(const std::vector<Action>& row,
                               const std::vector<ActivationBytes>& stages,
                               const std::vector<detail::ReplicaBytes>& replicas) {
  RowActivations result;
  std::int64_t held = 0, peak_with_exchange = 0;
  detail::RowExchange exchange(replicas);
  Pool pool;
  std::set<int> casted;  // stages whose weights are cast
  const auto reach = [&](std::int64_t bytes, std::int64_t exchanged) {
    result.peak = std::max(result.peak, bytes);
    peak_with_exchange = std::max(peak_with_exchange, saturating_add(bytes, exchanged));
  };
  auto count = [&](const Action& action) {
    const ActivationBytes& stage = stages.at(action.stage);
    pool.count(action.kind, stage);
    if (casted.insert(action.stage).second) held = saturating_add(held, stage.casted_weights);
    const std::int64_t before = held;
    reach(before, exchange.next(action));
    const std::int64_t exchanged = exchange.now();
    const bool ends = action.kind == ActionKind::kBackward;
    const bool turns = action.kind == ActionKind::kBackwardInput;
    if (action.kind == ActionKind::kForward) held = saturating_add(held, stage.after_forward);
    if (turns) held = saturating_add(held, stage.after_input);
    if (ends || turns) held = saturating_subtract(held, stage.after_forward);
    if (action.kind == ActionKind::kBackwardWeight) {
      held = saturating_subtract(held, stage.after_input);
    }
    result.kept = std::max(result.kept, held);
    reach(held, exchanged);
    if (action.kind == ActionKind::kForward)
      return reach(saturating_add(held, stage.in_forward), exchanged);
    std::int64_t on_entry = stage.on_entry;
    if (turns) on_entry = saturating_add(on_entry, stage.more_in_input);
    if (action.kind == ActionKind::kBackwardWeight) {
      on_entry = saturating_subtract(on_entry, stage.less_in_weight);
    }
    reach(saturating_add(before, on_entry), exchanged);
    reach(saturating_add(held, stage.at_end), exchanged);
  };
  for (const Action& action : row) {
    if (action.kind == ActionKind::kOverlap) {
      count(action.overlap_forward());
      count(action.overlap_backward());
    } else if (is_compute(action.kind)) {
      count(action);
    } else {
      if (action.kind == ActionKind::kReshard && casted.erase(action.stage) > 0)
        held = saturating_subtract(held, stages.at(action.stage).casted_weights);
      reach(held, exchange.next(action));
    }
  }
  result.pooled = pool.bytes();
  result.exchanged = saturating_subtract(peak_with_exchange, result.peak);
  result.gathered = exchange.most_gathered();
  return result;
}

}  // namespace sluice
