#include "layer/recomputation.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "layer/autocast.h"
#include "layer/autograd_node.h"
#include "layer/graph_input.h"
#include "layer/microbatch_lengths.h"
#include "layer/same_storage.h"
#include "sluice/error.h"

namespace sluice {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;
using Tensors = std::vector<at::Tensor>;

namespace {

std::optional<detail::MicrobatchLengths> lengths_here() {
  const detail::MicrobatchLengths* const lengths = detail::MicrobatchScope::current();
  return lengths ? std::optional(*lengths) : std::nullopt;
}

bool wants_gradient(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

// While this exists, the module's forward updates copies of its buffers, then discarded.
class BufferUpdatesDiscarded {
 public:
  explicit BufferUpdatesDiscarded(const torch::nn::Module& module) {
    for (at::Tensor& buffer : module.buffers()) {
      if (!buffer.defined()) continue;
      kept_.emplace_back(buffer, buffer.variable_data());
      buffer.set_data(buffer.detach().clone());
    }
  }
  ~BufferUpdatesDiscarded() {
    for (auto& [buffer, data] : kept_) buffer.set_data(data);
  }
  BufferUpdatesDiscarded(const BufferUpdatesDiscarded&) = delete;
  BufferUpdatesDiscarded& operator=(const BufferUpdatesDiscarded&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

}  // namespace

// The autograd node of a recomputed layer. Its results are the layer's outputs, then the values
// that the layer reads, for later readers. Its edges lead to these values, then to the weights.
class RecomputedLayer final : public Node {
 public:
  RecomputedLayer(std::shared_ptr<Recomputation> owner, std::size_t layer, const MicrobatchKey& key)
      : owner_(std::move(owner)),
        layer_(layer),
        key_(key),
        lengths_(lengths_here()),
        random_numbers_(owner_->chunk_.random_numbers(layer)) {}

  std::string name() const override { return "RecomputedLayer"; }

  // Saves the layer's inputs, each only once.
  void read(const Tensors& values) {
    edge_list edges;
    for (std::size_t k = 0; k < values.size(); ++k) {
      std::size_t first = 0;
      while (!values[first].is_same(values[k])) ++first;
      reads_.push_back(first);
      Saved saved;
      if (values[k].defined() && first == k) {
        saved.value = same_storage(values[k]);
        saved.version = saved.value._version();
        saved.is_differentiable = values[k].requires_grad();
        if (saved.is_differentiable)
          edges.push_back(torch::autograd::impl::gradient_edge(values[k]));
      }
      saved_.push_back(std::move(saved));
    }
    num_reads_ = edges.size();
    for (const at::Tensor& weight : owner_->trained_parameters(layer_))
      edges.emplace_back(torch::autograd::impl::grad_accumulator(weight), 0);
    set_next_edges(std::move(edges));
  }

  Tensors values() const {
    Tensors values;
    for (const std::size_t first : reads_) values.push_back(saved_[first].value);
    return values;
  }

  // Returns an alias of `tensor` that autograd sees as an output of this node, so that its gradient
  // arrives here.
  at::Tensor handed_on(const at::Tensor& tensor) {
    at::Tensor result = same_storage(tensor);
    torch::autograd::impl::set_gradient_edge(result, Edge(getptr(), add_input_metadata(result)));
    return result;
  }

  void write(Tensors& written) {
    for (at::Tensor& tensor : written) {
      const bool differentiable =
          tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
      writes_.push_back(differentiable);
      if (differentiable) tensor = handed_on(tensor);
    }
  }
  void hand_through(Tensors& values) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (reads_[k] != k)
        values[k] = values[reads_[k]];
      else if (saved_[k].is_differentiable)
        values[k] = handed_on(values[k]);
    }
  }

  void require_unchanged() const {
    for (const Saved& saved : saved_) {
      if (!saved.value.defined() || saved.value._version() == saved.version) continue;
      const LayerSpec& layer = owner_->chunk_.layers()[layer_];
      throw Error(ErrorKind::kUsage,
                  {.what = "a value that layer '" + layer.name +
                           "' reads was written to in place, so the layer cannot run again",
                   .where = "activation_checkpoint",
                   .remedy = "write to a copy, or leave the layer out"});
    }
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list result(num_outputs());
    if (has_run_) {  // this call is the weight-gradient pass
      std::move(deferred_).run();
      for (auto& [sum, gradient] : std::exchange(held_, {})) sum->add(gradient);
      return result;
    }
    has_run_ = true;
    bool wants_inputs = false, wants_weights = false;
    for (std::size_t i = 0; i < num_outputs(); ++i)
      (i < num_reads_ ? wants_inputs : wants_weights) |= task_should_compute_output(i);

    GraphInput input;
    auto [roots, root_gradients] = run_again(input, std::move(gradients));
    if (roots.empty()) return result;
    Tensors by_read;
    if (wants_inputs && !wants_weights && num_outputs() > num_reads_) {
      by_read = backward_input(input, roots, root_gradients);
    } else if (wants_weights && owner_->holds_early_weights_) {
      const WeightSumsScope handed_over(nullptr);
      by_read = backward_returning_weight_gradients(input, roots, root_gradients, result);
    } else {
      Engine::get_default_engine().execute(roots, root_gradients, /*keep_graph=*/false,
                                           /*create_graph=*/false, /*accumulate_grad=*/true);
      by_read = input.take_received();
    }
    auto next = result.begin();
    for (std::size_t k = 0; k < saved_.size(); ++k) {
      if (saved_[k].is_differentiable) *next++ = std::move(by_read[k]);
    }
    return result;
  }

  void release_variables() override {
    for (Saved& saved : saved_) saved.value.reset();
    deferred_ = {};
  }

 private:
  struct Saved {
    at::Tensor value;  // undefined if absent or a repeated read
    std::int64_t version = 0;
    bool is_differentiable = false;
  };

  // Repeats the forward with a graph and frees its outputs. Returns the edges at which the backward
  // starts, and their gradients.
  std::pair<edge_list, variable_list> run_again(GraphInput& input, variable_list gradients) {
    require_unchanged();
    Tensors values = this->values();
    for (std::size_t k = 0; k < saved_.size(); ++k) {
      if (reads_[k] != k) {
        values[k] = values[reads_[k]];
      } else if (values[k].defined()) {
        values[k] = same_storage(values[k]);
        values[k].set_requires_grad(saved_[k].is_differentiable);
      }
      input.begin_at(reads_[k] == k ? values[k] : at::Tensor());
      saved_[k].value.reset();
    }
    Tensors written;
    edge_list handed_through;
    {
      const at::AutoGradMode with_graph(true);
      const c10::impl::ForceDispatchKeyGuard as_before(dispatch_keys_);
      const AutocastScope no_cache(std::nullopt);
      const detail::MicrobatchScope of_microbatch(lengths_ ? &*lengths_ : nullptr);
      const BufferUpdatesDiscarded buffers(owner_->chunk_.module(layer_));
      for (std::size_t k = 0; k < saved_.size(); ++k) {
        if (saved_[k].is_differentiable)
          handed_through.push_back(torch::autograd::impl::gradient_edge(values[k]));
      }
      written = owner_->chunk_.run_layer(layer_, values, key_.seed, key_.step, key_.microbatch,
                                         random_numbers_.get());
    }
    std::pair<edge_list, variable_list> roots;
    const auto add = [&](const Edge& edge, at::Tensor& gradient) {
      if (!gradient.defined()) return;
      roots.first.push_back(edge);
      roots.second.push_back(std::move(gradient));
    };
    // Start with values that later layers read too, because the backwards of later layers come
    // first.
    const auto first_through = gradients.end() - static_cast<std::ptrdiff_t>(handed_through.size());
    for (std::size_t k = 0; k < handed_through.size(); ++k)
      add(handed_through[k], *(first_through + static_cast<std::ptrdiff_t>(k)));
    auto next = gradients.begin();
    for (std::size_t k = 0; k < writes_.size(); ++k) {
      if (!writes_[k]) continue;
      at::Tensor& gradient = *next++;
      if (wants_gradient(written[k]))
        add(torch::autograd::impl::gradient_edge(written[k]), gradient);
    }
    return roots;
  }

  // Computes all gradients in the input-gradient pass. The node's caller adds the returned weight
  // gradients in the weight-gradient pass.
  Tensors backward_returning_weight_gradients(const GraphInput& input, const edge_list& roots,
                                              const variable_list& gradients,
                                              variable_list& result) {
    edge_list wanted = input.edges();
    const auto num_inputs = static_cast<std::ptrdiff_t>(wanted.size());
    for (std::size_t i = num_reads_; i < num_outputs(); ++i) wanted.push_back(next_edge(i));
    variable_list captured = Engine::get_default_engine().execute(
        roots, gradients, /*keep_graph=*/false, /*create_graph=*/false, /*accumulate_grad=*/false,
        wanted);
    const auto first_weight = captured.begin() + num_inputs;
    std::move(first_weight, captured.end(),
              result.begin() + static_cast<std::ptrdiff_t>(num_reads_));
    captured.erase(first_weight, captured.end());
    return input.by_input(std::move(captured));
  }

  Tensors backward_input(const GraphInput& input, const edge_list& roots,
                         const variable_list& gradients) {
    InputBackward done = run_input_backward(roots, gradients, input.edges(), {});
    deferred_ = std::move(done.deferred);
    for (auto& [node, gradient] : done.early_weights) {
      GradientSum* sum = owner_->hooks_.sum_of(node.get());
      if (!sum) continue;
      if (owner_->holds_early_weights_)
        held_.emplace_back(sum, std::move(gradient));
      else
        sum->add(gradient);
    }
    return input.by_input(std::move(done.input_gradients));
  }

  const std::shared_ptr<Recomputation> owner_;
  const std::size_t layer_;
  const MicrobatchKey key_;
  // Saved because on CUDA the second forward runs on autograd's thread.
  const std::optional<detail::MicrobatchLengths> lengths_;
  const std::shared_ptr<const KeyedStream> random_numbers_;
  const c10::impl::LocalDispatchKeySet dispatch_keys_ = c10::impl::tls_local_dispatch_key_set();
  std::vector<Saved> saved_;
  std::vector<std::size_t> reads_;  // index of the first read of the same value
  std::size_t num_reads_ = 0;
  std::vector<bool> writes_;
  bool has_run_ = false;
  DeferredWeights deferred_;
  std::vector<std::pair<GradientSum*, at::Tensor>> held_;  // early weight gradients
};

Chunk::LayerCall Recomputation::call(const MicrobatchKey& key) {
  return [this, key](std::size_t layer, Tensors& read) {
    if (chunk_.layers()[layer].recompute) return run_without_graph(layer, key, read);
    return chunk_.run_layer(layer, read, key.seed, key.step, key.microbatch);
  };
}

Tensors Recomputation::run_without_graph(std::size_t layer, const MicrobatchKey& key,
                                         Tensors& read) {
  const bool has_backward =
      at::GradMode::is_enabled() &&
      (std::any_of(read.begin(), read.end(), wants_gradient) || !trained_parameters(layer).empty());
  if (!has_backward) return chunk_.run_layer(layer, read, key.seed, key.step, key.microbatch);
  const NodePtr node = make_node<RecomputedLayer>(shared_from_this(), layer, key);
  auto& recomputed = static_cast<RecomputedLayer&>(*node);
  recomputed.read(read);
  Tensors written;
  {
    const at::NoGradGuard no_graph;
    // Do not cache casted weights: these have no graph, and later forwards need one.
    const AutocastScope no_cache(std::nullopt);
    written = chunk_.run_layer(layer, recomputed.values(), key.seed, key.step, key.microbatch);
  }
  recomputed.require_unchanged();
  recomputed.write(written);
  recomputed.hand_through(read);
  return written;
}

Tensors Recomputation::trained_parameters(std::size_t layer) const {
  Tensors parameters;
  for (const ParameterInfo& parameter : chunk_.parameters()) {
    if (parameter.trainable && chunk_.index_of(parameter) == layer)
      parameters.push_back(parameter.tensor);
  }
  return parameters;
}

}  // namespace sluice
