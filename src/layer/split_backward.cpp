#include "layer/split_backward.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

namespace sluice {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;

constexpr std::uint8_t kReachesInput = 1;
constexpr std::uint8_t kReachesWeights = 2;

struct SelectiveBackwardMark final : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    return outputs;
  }
};

// A user-defined torch::autograd::Function always computes all of its gradients.
bool is_custom_function(const Node& node) {
  if (std::strstr(typeid(node).name(), "CppNode") == nullptr) return false;
  const auto& hooks = node.post_hooks();
  return std::none_of(hooks.begin(), hooks.end(), [](const auto& hook) {
    return dynamic_cast<const SelectiveBackwardMark*>(hook.get()) != nullptr;
  });
}

// The autograd graph below the roots, with children before parents.
class Graph {
 public:
  Graph(const edge_list& roots, std::unordered_set<const Node*> inputs)
      : inputs_(std::move(inputs)) {
    for (const Edge& root : roots) collect(root.function.get());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      is_leaf_.push_back(dynamic_cast<AccumulateGrad*>(nodes_[i]) != nullptr);
    }
    is_root_.assign(nodes_.size(), false);
    early_.assign(nodes_.size(), false);
    for (const Edge& root : roots) {
      const std::size_t i = index_.at(root.function.get());
      is_root_[i] = true;
      early_[i] = is_leaf_[i];  // a weight that is an output gets its gradient in I
    }
    do {
      mark_reach();
    } while (find_early_weights());
  }

  std::size_t size() const { return nodes_.size(); }
  Node* node(std::size_t i) const { return nodes_[i]; }
  bool is_early(std::size_t i) const { return early_[i]; }
  bool is_input(std::size_t i) const { return inputs_.count(nodes_[i]) != 0; }
  bool reaches_input(std::size_t i) const { return (reach_[i] & kReachesInput) != 0; }
  bool weights_only(const Edge& edge) const {
    return edge.function && reach_[index_.at(edge.function.get())] == kReachesWeights;
  }
  bool towards_input(const Edge& edge) const {
    return edge.function && reaches_input(index_.at(edge.function.get()));
  }
  bool is_frontier(std::size_t i) const {
    if (is_weights_root(i)) return true;
    if (!reaches_input(i)) return false;
    const edge_list& edges = nodes_[i]->next_edges();
    return std::any_of(edges.begin(), edges.end(),
                       [&](const Edge& edge) { return weights_only(edge); });
  }
  std::unordered_set<const Node*> above(const edge_list& wanted) const {
    std::unordered_set<const Node*> captured, result;
    for (const Edge& edge : wanted) captured.insert(edge.function.get());
    for (const Node* node : nodes_) {
      for (const Edge& edge : node->next_edges()) {
        if (captured.count(edge.function.get()) || result.count(edge.function.get()))
          result.insert(node);
      }
    }
    return result;
  }

 private:
  bool is_weights_root(std::size_t i) const { return is_root_[i] && reach_[i] == kReachesWeights; }

  void collect(Node* root) {
    if (!root || !index_.emplace(root, 0).second) return;
    std::vector<std::pair<Node*, std::size_t>> path{{root, 0}};
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next < node->num_outputs()) {
        Node* child = node->next_edge(next++).function.get();
        if (child && index_.emplace(child, 0).second) path.emplace_back(child, 0);
      } else {
        index_[node] = nodes_.size();
        nodes_.push_back(node);
        path.pop_back();
      }
    }
  }

  void mark_reach() {
    reach_.assign(nodes_.size(), 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (is_input(i) || early_[i]) {
        reach_[i] = kReachesInput;
      } else if (is_leaf_[i]) {
        reach_[i] = kReachesWeights;
      }
      for (const Edge& edge : nodes_[i]->next_edges()) {
        if (edge.function) reach_[i] |= reach_[index_.at(edge.function.get())];
      }
    }
  }

  // Finds weights whose gradient needs several frontier nodes. If it returns true, call
  // mark_reach() again.
  bool find_early_weights() {
    bool found = false;
    std::vector<std::size_t> owner(nodes_.size(), nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!is_frontier(i)) continue;
      const bool all = is_custom_function(*nodes_[i]) && !is_weights_root(i);
      std::vector<std::size_t> below;
      auto push_edges = [&](std::size_t parent) {
        for (const Edge& edge : nodes_[parent]->next_edges()) {
          if (weights_only(edge)) below.push_back(index_.at(edge.function.get()));
        }
      };
      if (is_weights_root(i)) {
        below.push_back(i);
      } else {
        push_edges(i);
      }
      while (!below.empty()) {
        const std::size_t at = below.back();
        below.pop_back();
        if (owner[at] == i) continue;
        if (all || owner[at] != nodes_.size()) {
          found |= mark_leaves_early(at);
        }
        owner[at] = i;
        push_edges(at);
      }
    }
    return found;
  }

  bool mark_leaves_early(std::size_t top) {
    bool found = false;
    std::unordered_set<std::size_t> seen{top};
    std::vector<std::size_t> below{top};
    while (!below.empty()) {
      const std::size_t at = below.back();
      below.pop_back();
      if (is_leaf_[at] && !early_[at]) early_[at] = found = true;
      for (const Edge& edge : nodes_[at]->next_edges()) {
        if (!edge.function) continue;
        const std::size_t child = index_.at(edge.function.get());
        if (seen.insert(child).second) below.push_back(child);
      }
    }
    return found;
  }

  std::unordered_set<const Node*> inputs_;
  std::unordered_map<const Node*, std::size_t> index_;
  std::vector<Node*> nodes_;
  std::vector<bool> is_leaf_, is_root_, early_;
  std::vector<std::uint8_t> reach_;
};

// Frees a node's saved tensors when it has run, because it does not run again.
struct ReleaseAfterUse final : torch::autograd::FunctionPostHook {
  explicit ReleaseAfterUse(Node* owner) : node(owner) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    node->release_variables();
    return outputs;
  }
  Node* node;
};

}  // namespace

void declare_selective_backward(const at::Tensor& y) {
  if (const auto& node = y.grad_fn())
    node->add_post_hook(std::make_unique<SelectiveBackwardMark>());
}

InputBackward run_input_backward(const edge_list& roots, const variable_list& gradients,
                                 const edge_list& inputs, const std::vector<NodePtr>& boundary) {
  std::unordered_set<const Node*> targets;
  for (const Edge& edge : inputs) targets.insert(edge.function.get());
  for (const NodePtr& node : boundary) targets.insert(node.get());
  const Graph graph(roots, std::move(targets));

  InputBackward result;
  std::vector<DeferredWeights::Frontier>& frontiers = result.deferred.frontier_;
  edge_list wanted = inputs;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    Node* node = graph.node(i);
    if (graph.is_early(i)) {
      result.early_weights.emplace_back(node->getptr(), at::Tensor());
      wanted.emplace_back(node->getptr(), 0);
    }
  }
  for (std::size_t i = 0; i < graph.size(); ++i) {
    Node* node = graph.node(i);
    if (graph.is_frontier(i)) {
      frontiers.push_back({node->getptr(), {}});
      for (std::uint32_t k = 0; k < node->num_inputs(); ++k) wanted.emplace_back(node->getptr(), k);
    } else if (graph.reaches_input(i) && !graph.is_input(i) && !graph.is_early(i)) {
      node->add_post_hook(std::make_unique<ReleaseAfterUse>(node));
    }
  }
  if (wanted.empty()) return result;

  // If the engine also evaluates a frontier node, it captures the gradient before the node's tensor
  // hooks. Otherwise it captures after them, and W must not call the hooks again.
  const auto has_hooks = [](const DeferredWeights::Frontier& frontier) {
    return !frontier.node->tensor_pre_hooks().empty();
  };
  std::vector<Node*> hooked;
  if (std::any_of(frontiers.begin(), frontiers.end(), has_hooks)) {
    const std::unordered_set<const Node*> evaluated = graph.above(wanted);
    for (const DeferredWeights::Frontier& frontier : frontiers) {
      if (evaluated.count(frontier.node.get()) == 0) hooked.push_back(frontier.node.get());
    }
  }

  variable_list captured = Engine::get_default_engine().execute(
      roots, gradients, /*keep_graph=*/true, /*create_graph=*/false, /*accumulate_grad=*/false,
      wanted);

  for (Node* node : hooked) node->tensor_pre_hooks().clear();

  auto next = captured.begin();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    result.input_gradients.push_back(std::move(*next++));
  for (auto& [node, gradient] : result.early_weights) gradient = std::move(*next++);
  for (DeferredWeights::Frontier& frontier : frontiers) {
    for (std::uint32_t k = 0; k < frontier.node->num_inputs(); ++k) {
      frontier.gradients.push_back(std::move(*next++));
    }
  }
  for (DeferredWeights::Frontier& frontier : frontiers) {
    for (Edge& edge : frontier.node->next_edges()) {
      if (graph.towards_input(edge)) edge = Edge();
    }
  }
  // Run W in the order of a whole backward, latest node first.
  std::stable_sort(frontiers.begin(), frontiers.end(), [](const auto& a, const auto& b) {
    return a.node->sequence_nr() > b.node->sequence_nr();
  });
  return result;
}

void DeferredWeights::run() && {
  for (Frontier& frontier : frontier_) {
    edge_list roots;
    variable_list gradients;
    for (std::uint32_t k = 0; k < frontier.gradients.size(); ++k) {
      if (!frontier.gradients[k].defined()) continue;
      roots.emplace_back(frontier.node, k);
      gradients.push_back(std::move(frontier.gradients[k]));
    }
    frontier = {};
    if (roots.empty()) continue;
    Engine::get_default_engine().execute(roots, gradients, /*keep_graph=*/false,
                                         /*create_graph=*/false,
                                         /*accumulate_grad=*/true);
  }
  frontier_.clear();
}

}  // namespace sluice
