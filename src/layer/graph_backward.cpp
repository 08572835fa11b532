#include "layer/graph_backward.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "layer/graph_input.h"
#include "layer/parameter_hooks.h"
#include "layer/recomputation.h"
#include "layer/split_backward.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;
using Tensors = std::vector<at::Tensor>;

class GraphBackward final : public ChunkBackward {
 public:
  GraphBackward(Chunk& chunk, ParameterHooks& hooks) : chunk_(chunk), hooks_(hooks) {
    const auto runs_twice = [](const LayerSpec& layer) { return layer.recompute; };
    const std::vector<LayerSpec>& layers = chunk.layers();
    if (std::any_of(layers.begin(), layers.end(), runs_twice))
      recomputed_ = std::make_shared<Recomputation>(chunk, hooks);
  }

  Values forward(const MicrobatchKey& key, Values received, const Values& batch) override {
    hooks_.check(chunk_.parameters());
    for (const auto& [name, tensor] : received) input_.begin_at(tensor);
    Values outputs = chunk_.forward(std::move(received), batch, key.seed, key.step, key.microbatch,
                                    recomputed_ ? recomputed_->call(key) : Chunk::LayerCall());
    const Tensors first = chunk_.take_first_layer_outputs();
    if (input_.num_slots() == 0) {
      for (const at::Tensor& tensor : first) {
        if (tensor.grad_fn()) inner_boundary_.push_back(tensor.grad_fn());
      }
    }
    return outputs;
  }

  void keep(const Tensors& roots) override {
    for (const at::Tensor& root : roots) {
      roots_.push_back(root.defined() && root.requires_grad()
                           ? torch::autograd::impl::gradient_edge(root)
                           : Edge());
    }
  }

  Tensors full(Tensors root_gradients) override {
    const auto [roots, gradients] = take_roots(std::move(root_gradients));
    if (!roots.empty()) {
      const ParameterHooks::Backward running(hooks_);
      const WeightSumsScope in_place(&hooks_);
      Engine::get_default_engine().execute(roots, gradients, /*keep_graph=*/false,
                                           /*create_graph=*/false, /*accumulate_grad=*/true);
    }
    return input_.take_received();
  }

  Tensors input(Tensors root_gradients, bool hold_weights) override {
    InputBackward done;
    {
      const ParameterHooks::Backward running(hooks_);
      const WeightSumsScope handed_over(nullptr);
      const auto [roots, gradients] = take_roots(std::move(root_gradients));
      if (roots.empty()) return input_.by_input({});
      if (recomputed_) recomputed_->defer_early_weights(hold_weights);
      done = run_input_backward(roots, gradients, input_.edges(), inner_boundary_);
      if (recomputed_) recomputed_->defer_early_weights(false);
    }
    inner_boundary_.clear();
    deferred_ = std::move(done.deferred);
    splits_ = !deferred_.empty() || done.early_weights.empty();
    for (auto& [node, gradient] : done.early_weights) {
      GradientSum* sum = hooks_.sum_of(node.get());
      if (!sum) continue;  // a leaf that is not a parameter
      if (hold_weights) {
        held_.emplace_back(sum, std::move(gradient));
      } else {
        sum->add(gradient);
      }
    }
    return input_.by_input(std::move(done.input_gradients));
  }

  void weight() override {
    {
      const ParameterHooks::Backward running(hooks_);
      const WeightSumsScope in_place(&hooks_);
      std::move(deferred_).run();
    }
    for (auto& [sum, gradient] : held_) sum->add(gradient);
  }

  bool splits() const override { return splits_; }

 private:
  std::pair<edge_list, variable_list> take_roots(Tensors root_gradients) {
    if (root_gradients.size() != roots_.size()) {
      throw Error(ErrorKind::kInternal, {.what = formatted("expected {} output gradients, got {}",
                                                           roots_.size(), root_gradients.size())});
    }
    std::pair<edge_list, variable_list> taken;
    for (std::size_t i = 0; i < roots_.size(); ++i) {
      Edge& root = roots_[i];
      if (!root.is_valid() || !root_gradients[i].defined()) continue;
      const at::Device device = root.function->input_metadata(root.input_nr).device();
      if (root_gradients[i].device() != device) root_gradients[i] = root_gradients[i].to(device);
      taken.first.push_back(std::move(root));
      taken.second.push_back(std::move(root_gradients[i]));
    }
    roots_.clear();
    return taken;
  }

  Chunk& chunk_;
  ParameterHooks& hooks_;
  std::shared_ptr<Recomputation> recomputed_;  // null: no layer is recomputed
  GraphInput input_;
  // first layer's outputs, if no stage input needs a gradient
  std::vector<NodePtr> inner_boundary_;
  edge_list roots_;
  DeferredWeights deferred_;
  // early weight gradients
  std::vector<std::pair<GradientSum*, at::Tensor>> held_;
  bool splits_ = true;
};

}  // namespace

ChunkBackwardMaker graph_backward(const Chunk& chunk, const GradientSums& sums, std::string place) {
  return
      [hooks = std::make_shared<ParameterHooks>(chunk.parameters(), sums, std::move(place))](
          Chunk& of, const GradientSums&) { return std::make_unique<GraphBackward>(of, *hooks); };
}

}  // namespace sluice
