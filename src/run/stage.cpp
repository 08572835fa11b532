#include "sluice/stage.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <optional>
#include <type_traits>
#include <unordered_map>

#include "run/gradient_accumulator.h"
#include "run/same_storage.h"
#include "run/split_backward.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

// Where the graph of a microbatch begins. Unlike a leaf it holds no tensor, so that an input that
// no operator saved is free as soon as the forward is over.
struct StageInput final : Node {
  variable_list apply(variable_list&& gradients) override {
    received = std::move(gradients);
    return {};
  }
  variable_list received;  // per differentiable input, after backward
};

template <typename Pointer = NodePtr>
Pointer make_stage_input() {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>) {
    return Pointer(new StageInput());
  } else {
    return c10::make_intrusive<StageInput>();
  }
}

// A microbatch between its forward and the end of its backward.
struct InFlight {
  NodePtr input;                        // a StageInput
  std::vector<int> input_slots;         // chunk input -> slot of the node, -1: needs no gradient
  std::vector<NodePtr> inner_boundary;  // without differentiable inputs: after the first layer
  edge_list roots;                      // invalid where an output needs no gradient
  bool kept = false;
  bool input_done = false;  // I has run
  DeferredWeights deferred;
  std::vector<std::pair<GradientAccumulator*, at::Tensor>> held;  // early weights, added during W
};

}  // namespace

struct Stage::Impl {
  int index;
  Chunk chunk;
  std::vector<std::unique_ptr<GradientAccumulator>> accumulators;  // per parameter; null: frozen
  std::unordered_map<const Node*, GradientAccumulator*> accumulator_of;
  std::map<std::int64_t, InFlight> in_flight;
  std::optional<at::Device> device;  // of the parameters
  bool splits = true;
  bool hold_early_weights = false;
  at::Tensor none;  // gradient of a frozen parameter

  Impl(int stage_index, Chunk stage_chunk) : index(stage_index), chunk(std::move(stage_chunk)) {
    for (ParameterInfo& parameter : chunk.parameters()) {
      if (!device) device = parameter.tensor.device();
      accumulators.push_back(
          parameter.tensor.requires_grad()
              ? std::make_unique<GradientAccumulator>(parameter.tensor, parameter.name)
              : nullptr);
      if (accumulators.back())
        accumulator_of[accumulators.back()->node()] = accumulators.back().get();
    }
  }

  InFlight& find(std::int64_t microbatch, const char* what) {
    const auto found = in_flight.find(microbatch);
    if (found == in_flight.end() || !found->second.kept) {
      throw Error(ErrorKind::kInternal, std::string(what) + " without its forward",
                  "stage " + std::to_string(index) + ", microbatch " + std::to_string(microbatch));
    }
    return found->second;
  }

  // A parameter that was moved or converted would keep its gradients for itself.
  void check_parameters() const {
    for (std::size_t i = 0; i < accumulators.size(); ++i) {
      const ParameterInfo& parameter = chunk.parameters()[i];
      const bool ours = accumulators[i] ? accumulators[i]->is_hooked_to(parameter.tensor)
                                        : !parameter.tensor.requires_grad();
      if (ours) continue;
      throw Error(ErrorKind::kUsage,
                  "parameter '" + parameter.name +
                      "' was moved, converted or unfrozen after its stage was made",
                  "stage " + std::to_string(index), "do so in LayerSpec::make");
    }
  }

  // What another stage handed over, on this stage's device.
  at::Tensor at_home(const at::Tensor& input) const {
    if (!input.defined()) return input;
    at::Tensor result = same_storage(input);
    return device && result.device() != *device ? result.to(*device) : result;
  }

  // The roots that need a gradient and got one.
  static void select_roots(InFlight& work, std::vector<at::Tensor>& root_gradients,
                           edge_list& roots, variable_list& gradients) {
    if (root_gradients.size() != work.roots.size()) {
      throw Error(ErrorKind::kInternal, "expected " + std::to_string(work.roots.size()) +
                                            " output gradients, got " +
                                            std::to_string(root_gradients.size()));
    }
    for (std::size_t i = 0; i < work.roots.size(); ++i) {
      if (!work.roots[i].is_valid() || !root_gradients[i].defined()) continue;
      const at::Device device =
          work.roots[i].function->input_metadata(work.roots[i].input_nr).device();
      if (root_gradients[i].device() != device) root_gradients[i] = root_gradients[i].to(device);
      gradients.push_back(std::move(root_gradients[i]));
      roots.push_back(std::move(work.roots[i]));
    }
    work.roots.clear();
    root_gradients.clear();
  }

  static std::vector<at::Tensor> by_input(const InFlight& work, variable_list slots) {
    std::vector<at::Tensor> result(work.input_slots.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      const int slot = work.input_slots[i];
      if (slot >= 0 && static_cast<std::size_t>(slot) < slots.size()) {
        result[i] = std::move(slots[static_cast<std::size_t>(slot)]);
      }
    }
    return result;
  }
};

Stage::Stage(int index, Chunk chunk) : impl_(std::make_unique<Impl>(index, std::move(chunk))) {}
Stage::~Stage() = default;
Stage::Stage(Stage&&) noexcept = default;

int Stage::index() const { return impl_->index; }
Chunk& Stage::chunk() { return impl_->chunk; }
std::vector<ParameterInfo>& Stage::parameters() { return impl_->chunk.parameters(); }
at::Tensor& Stage::gradient(std::size_t parameter) {
  GradientAccumulator* accumulator = impl_->accumulators.at(parameter).get();
  return accumulator ? accumulator->sum() : impl_->none;
}
void Stage::clear_gradients() {
  for (auto& accumulator : impl_->accumulators) {
    if (accumulator) accumulator->clear();
  }
}
std::size_t Stage::num_live() const { return impl_->in_flight.size(); }
bool Stage::splits_backward() const { return impl_->splits; }
void Stage::hold_early_weights(bool on) { impl_->hold_early_weights = on; }
void Stage::reset() {
  impl_->in_flight.clear();
  impl_->chunk.take_first_layer_outputs();  // a forward that threw
  clear_gradients();
}

Values Stage::forward(const MicrobatchKey& key, std::vector<at::Tensor> inputs,
                      const Values& batch) {
  const std::vector<std::string>& names = impl_->chunk.inputs();
  if (inputs.size() != names.size()) {
    throw Error(ErrorKind::kInternal, "expected " + std::to_string(names.size()) + " inputs, got " +
                                          std::to_string(inputs.size()));
  }
  impl_->check_parameters();
  InFlight& work = impl_->in_flight[key.microbatch];
  work = InFlight();
  work.input = make_stage_input();
  Values received;
  int num_slots = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    at::Tensor input = impl_->at_home(inputs[i]);
    const bool differentiable =
        inputs[i].defined() && inputs[i].requires_grad() && at::GradMode::is_enabled();
    inputs[i].reset();
    if (differentiable) {
      torch::autograd::impl::set_gradient_edge(
          input, Edge(work.input, work.input->add_input_metadata(input)));
    }
    work.input_slots.push_back(differentiable ? num_slots++ : -1);
    received.set(names[i], std::move(input));
  }
  Values outputs =
      impl_->chunk.forward(std::move(received), batch, key.seed, key.step, key.microbatch);
  const std::vector<at::Tensor> first = impl_->chunk.take_first_layer_outputs();
  if (num_slots == 0) {
    for (const at::Tensor& tensor : first) {
      if (tensor.grad_fn()) work.inner_boundary.push_back(tensor.grad_fn());
    }
  }
  return outputs;
}

void Stage::forget(std::int64_t microbatch) { impl_->in_flight.erase(microbatch); }

void Stage::keep(std::int64_t microbatch, const std::vector<at::Tensor>& roots) {
  for (auto& accumulator : impl_->accumulators) {
    if (accumulator) accumulator->reserve();
  }
  InFlight& work = impl_->in_flight.at(microbatch);
  for (const at::Tensor& root : roots) {
    work.roots.push_back(root.defined() && root.requires_grad()
                             ? torch::autograd::impl::gradient_edge(root)
                             : Edge());
  }
  work.kept = true;
}

std::vector<at::Tensor> Stage::backward(std::int64_t microbatch,
                                        std::vector<at::Tensor> root_gradients) {
  InFlight& work = impl_->find(microbatch, "backward");
  edge_list roots;
  variable_list gradients;
  Impl::select_roots(work, root_gradients, roots, gradients);
  if (!roots.empty()) {
    torch::autograd::Engine::get_default_engine().execute(roots, gradients, /*keep_graph=*/false,
                                                          /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
  }
  std::vector<at::Tensor> result =
      Impl::by_input(work, std::move(static_cast<StageInput*>(work.input.get())->received));
  impl_->in_flight.erase(microbatch);
  return result;
}

std::vector<at::Tensor> Stage::backward_input(std::int64_t microbatch,
                                              std::vector<at::Tensor> root_gradients) {
  InFlight& work = impl_->find(microbatch, "input backward");
  if (work.input_done) {
    throw Error(ErrorKind::kInternal, "input backward twice",
                "microbatch " + std::to_string(microbatch));
  }
  work.input_done = true;
  edge_list roots;
  variable_list gradients;
  Impl::select_roots(work, root_gradients, roots, gradients);
  edge_list inputs;
  for (std::uint32_t slot = 0; slot < work.input->num_inputs(); ++slot)
    inputs.emplace_back(work.input, slot);
  if (roots.empty()) return Impl::by_input(work, {});

  InputBackward done = run_input_backward(roots, gradients, inputs, work.inner_boundary);
  roots.clear();
  work.inner_boundary.clear();
  work.deferred = std::move(done.deferred);
  for (auto& [node, gradient] : done.early_weights) {
    const auto found = impl_->accumulator_of.find(node.get());
    if (found == impl_->accumulator_of.end())
      continue;  // a leaf of the user's that is no parameter
    if (impl_->hold_early_weights) {
      work.held.emplace_back(found->second, std::move(gradient));
    } else {
      found->second->add(gradient);
    }
  }
  if (work.deferred.empty() && !done.early_weights.empty()) impl_->splits = false;
  return Impl::by_input(work, std::move(done.input_gradients));
}

void Stage::backward_weight(std::int64_t microbatch) {
  InFlight& work = impl_->find(microbatch, "weight backward");
  if (!work.input_done) {
    throw Error(ErrorKind::kInternal, "weight backward before its input backward",
                "microbatch " + std::to_string(microbatch));
  }
  std::move(work.deferred).run();
  for (auto& [accumulator, gradient] : work.held) accumulator->add(gradient);
  impl_->in_flight.erase(microbatch);
}

}  // namespace sluice
