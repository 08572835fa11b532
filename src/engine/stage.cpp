#include "sluice/parts/stage.h"
#include "layer/gradient_sum.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <optional>
#include <utility>

#include "base/format.h"
#include "layer/casted_weights.h"
#include "layer/deferred.h"
#include "layer/graph_backward.h"
#include "layer/same_storage.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// State of one microbatch in flight: from its forward until its backward is complete.
struct InFlight {
  std::unique_ptr<ChunkBackward> backward;
  bool kept = false;
  bool input_done = false;  // the input gradient is computed
};

}  // namespace

struct Stage::Impl {
  int index;
  Chunk chunk;
  GradientSums sums;
  std::optional<at::Device> device;
  ChunkBackwardMaker make_backward;
  std::map<std::int64_t, InFlight> in_flight;
  bool splits = true;
  bool defer_early_weights = false;
  StageShards shards;
  std::vector<int> backwards_left;  // in this step, per shard of this rank
  const bool uses_graph;            // backward by autograd
  at::Tensor none;                  // undefined, the gradient of a frozen parameter

  Impl(int stage_index, Chunk stage_chunk, ChunkBackwardMaker backward)
      : index(stage_index),
        chunk(std::move(stage_chunk)),
        make_backward(std::move(backward)),
        uses_graph(!make_backward) {
    take_parameters();
  }

  void take_parameters() {
    if (uses_graph) make_backward = nullptr;
    sums = make_sums(chunk.parameters());
    begin_sums();
    chunk.clear_casted_weights();
    if (!chunk.parameters().empty()) device = chunk.parameters().front().tensor.device();
    if (uses_graph) make_backward = graph_backward(chunk, sums, "stage " + std::to_string(index));
  }

  bool has_several_shards() const { return shards.own.end - shards.own.begin > 1; }

  ShardedSum* sum(std::size_t parameter) {
    return static_cast<ShardedSum*>(sums.at(parameter).get());
  }

  template <typename Visit>
  void for_each_sum(Visit visit) {
    for (auto& sum : sums) {
      if (sum) visit(static_cast<ShardedSum&>(*sum));  // make_sums() makes no other type
    }
  }

  void begin_sums() {
    for_each_sum([&](ShardedSum& sum) { sum.set_shards(shards.own); });
    clear_sums();
  }

  // Shards without a microbatch on this stage are complete from the start.
  void clear_sums() {
    for_each_sum([](ShardedSum& sum) { sum.clear(); });
    if (!has_several_shards()) return;
    backwards_left = shards.backwards;
    for (std::size_t i = 0; i < backwards_left.size(); ++i) {
      if (backwards_left[i] > 0) continue;
      for_each_sum([&](ShardedSum& sum) { sum.finish(shards.own.begin + static_cast<int>(i)); });
    }
  }

  int shard_of(std::int64_t microbatch) const {
    const auto shard = microbatch / shards.microbatches_per_shard;
    if (shard >= shards.own.begin && shard < shards.own.end) return static_cast<int>(shard);
    throw Error(
        ErrorKind::kInternal,
        {.what = formatted("microbatch {} belongs to shard {}, whose sum is on another replica",
                           microbatch, shard),
         .where = "stage " + std::to_string(index)});
  }

  void select_shard(std::int64_t microbatch) {
    if (!has_several_shards()) return;
    const int shard = shard_of(microbatch);
    for_each_sum([&](ShardedSum& sum) { sum.select(shard); });
  }

  void end_weights(std::int64_t microbatch) {
    if (!has_several_shards()) return;
    const int shard = shard_of(microbatch);
    if (--backwards_left.at(static_cast<std::size_t>(shard - shards.own.begin)) > 0) return;
    for_each_sum([&](ShardedSum& sum) { sum.finish(shard); });
  }

  InFlight& begin_backward(std::int64_t microbatch, const char* what) {
    const auto found = in_flight.find(microbatch);
    if (found == in_flight.end() || !found->second.kept) {
      throw Error(ErrorKind::kInternal,
                  {.what = std::string(what) + " runs without its forward",
                   .where = formatted("stage {}, microbatch {}", index, microbatch)});
    }
    chunk.casted_weights().fill();  // autograd graphs have saved these weights
    return found->second;
  }

  // Returns a received value as an autograd leaf on this stage's device. It requires a gradient if
  // the sent value did.
  at::Tensor to_stage_device(const at::Tensor& input) const {
    if (!input.defined()) return input;
    at::Tensor result = same_storage(input);
    if (device && result.device() != *device) result = result.to(*device);
    return result.set_requires_grad(input.requires_grad() && at::GradMode::is_enabled());
  }
};

Stage::Stage(int index, Chunk chunk, ChunkBackwardMaker backward)
    : impl_(std::make_unique<Impl>(index, std::move(chunk), std::move(backward))) {}
Stage::~Stage() = default;
Stage::Stage(Stage&&) noexcept = default;

int Stage::index() const { return impl_->index; }
Chunk& Stage::chunk() { return impl_->chunk; }
std::vector<ParameterInfo>& Stage::parameters() { return impl_->chunk.parameters(); }
at::Tensor& Stage::gradient(std::size_t parameter) {
  ShardedSum* sum = impl_->sum(parameter);
  return sum ? sum->value() : impl_->none;
}
void Stage::clear_gradients() {
  impl_->clear_sums();
  end_step();
}
void Stage::set_shards(const StageShards& shards) {
  impl_->clear_sums();
  if (shards == impl_->shards) return;
  impl_->shards = shards;
  impl_->begin_sums();
}
std::vector<at::Tensor> Stage::partial_gradients(std::size_t parameter) const {
  const ShardedSum* sum = impl_->sum(parameter);
  return sum ? sum->partial_sums() : std::vector<at::Tensor>();
}
void Stage::set_gradient(std::size_t parameter, at::Tensor sum) {
  impl_->sum(parameter)->replace(std::move(sum));
}
void Stage::to(at::Device device) {
  for (std::size_t i = 0; i < impl_->chunk.layers().size(); ++i) impl_->chunk.module(i).to(device);
  impl_->take_parameters();
}
void Stage::to_empty(at::Device device) {
  for (std::size_t i = 0; i < impl_->chunk.layers().size(); ++i)
    sluice::to_empty(impl_->chunk.module(i), device);
  impl_->take_parameters();
}
std::size_t Stage::num_live() const { return impl_->in_flight.size(); }
bool Stage::splits_backward() const { return impl_->splits; }
void Stage::defer_early_weights(bool on) { impl_->defer_early_weights = on; }
void Stage::end_step() { impl_->chunk.clear_casted_weights(); }
void Stage::drop_derived() { impl_->chunk.casted_weights().empty(); }
void Stage::reset() {
  impl_->in_flight.clear();
  impl_->chunk.take_first_layer_outputs();  // outputs of a forward that threw
  clear_gradients();
}

Values Stage::forward(const MicrobatchKey& key, std::vector<at::Tensor> inputs,
                      const Values& batch) {
  const std::vector<std::string>& names = impl_->chunk.inputs();
  if (inputs.size() != names.size()) {
    throw Error(ErrorKind::kInternal,
                {.what = formatted("expected {} inputs, got {}", names.size(), inputs.size())});
  }
  if (impl_->in_flight.contains(key.microbatch)) {
    throw Error(ErrorKind::kUsage,
                {.what = "the forward repeats a microbatch in flight",
                 .where = formatted("stage {}, microbatch {}", index(), key.microbatch),
                 .remedy = "run its backward first, or Stage::forget"});
  }
  impl_->chunk.casted_weights().fill();
  InFlight& work = impl_->in_flight[key.microbatch];
  work = {impl_->make_backward(impl_->chunk, impl_->sums)};
  Values received;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    received.set(names[i], impl_->to_stage_device(std::exchange(inputs[i], {})));
  return work.backward->forward(key, std::move(received), batch);
}

void Stage::forget(std::int64_t microbatch) { impl_->in_flight.erase(microbatch); }

void Stage::keep(std::int64_t microbatch, const std::vector<at::Tensor>& roots) {
  impl_->for_each_sum([](ShardedSum& sum) { sum.reserve(); });
  InFlight& work = impl_->in_flight.at(microbatch);
  work.backward->keep(roots);
  work.kept = true;
}

std::vector<at::Tensor> Stage::backward(std::int64_t microbatch,
                                        std::vector<at::Tensor> root_gradients) {
  InFlight& work = impl_->begin_backward(microbatch, "backward");
  impl_->select_shard(microbatch);
  std::vector<at::Tensor> result = work.backward->full(std::move(root_gradients));
  impl_->in_flight.erase(microbatch);
  impl_->end_weights(microbatch);
  return result;
}

std::vector<at::Tensor> Stage::backward_input(std::int64_t microbatch,
                                              std::vector<at::Tensor> root_gradients) {
  InFlight& work = impl_->begin_backward(microbatch, "input backward");
  if (work.input_done) {
    throw Error(ErrorKind::kInternal, {.what = "the input backward runs twice",
                                       .where = "microbatch " + std::to_string(microbatch)});
  }
  work.input_done = true;
  impl_->select_shard(microbatch);
  std::vector<at::Tensor> result =
      work.backward->input(std::move(root_gradients), impl_->defer_early_weights);
  impl_->splits &= work.backward->splits();
  return result;
}

void Stage::backward_weight(std::int64_t microbatch) {
  InFlight& work = impl_->begin_backward(microbatch, "weight backward");
  if (!work.input_done) {
    throw Error(ErrorKind::kInternal, {.what = "the weight backward runs before its input backward",
                                       .where = "microbatch " + std::to_string(microbatch)});
  }
  impl_->select_shard(microbatch);
  work.backward->weight();
  impl_->in_flight.erase(microbatch);
  impl_->end_weights(microbatch);
}

}  // namespace sluice
