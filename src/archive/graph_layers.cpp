#include "archive/graph_layers.h"

#include <algorithm>
#include <map>
#include <set>

#include "archive/graph_flow.h"
#include "archive/graph_nodes.h"
#include "archive/graph_units.h"
#include "archive/graph_uses.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using InputKind = GraphInput::Kind;
using Names = std::vector<std::string>;

template <typename T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

void add_once(std::vector<int>& to, int value) {
  if (!contains(to, value)) to.push_back(value);
}

class Layering {
 public:
  Layering(const ExportedGraph& graph, const GraphFlow& flow, const GraphUnits& units)
      : graph_(graph), flow_(flow), units_(units) {}

  GraphLayers made() {
    result_.value_names = flow_.value_names();
    result_.inputs = flow_.inputs();
    result_.outputs = flow_.outputs();
    result_.is_free = flow_.is_free();
    result_.is_written = flow_.is_written();
    make_layers(units_.in_order());
    group_free();
    connect();
    name_uses(graph_, flow_, result_.layers);
    return std::move(result_);
  }

 private:
  void make_layers(const std::vector<GraphUnit>& units) {
    std::vector<std::size_t> begins;
    for (std::size_t p = 0; p < units.size(); ++p)
      if (p == 0 || units[p].key != units[p - 1].key) begins.push_back(p);
    for (std::size_t k = 0; k < begins.size(); ++k) {
      const std::size_t begin = begins[k];
      const std::size_t end = k + 1 < begins.size() ? begins[k + 1] : flow_.order().size();
      const bool joins = !flow_.may_cut_before(begin) && !result_.layers.empty();
      if (joins) {
        require_not_named(units[begin - 1], units[begin]);
      } else {
        GraphLayer layer;
        layer.name = distinct_name(units[begin].key);
        layer.class_name = units[begin].class_name;
        layer.role = units[begin].is_block ? LayerRole::kBlock : LayerRole::kOther;
        result_.layers.push_back(std::move(layer));
      }
      GraphLayer& layer = result_.layers.back();
      for (std::size_t p = begin; p < end; ++p) layer.nodes.push_back(flow_.order()[p]);
    }
    set_roles();
    set_modules();
  }

  // A module that the user named needs cuts before and after it.
  void require_not_named(const GraphUnit& before, const GraphUnit& unit) const {
    if (!before.is_named && !unit.is_named) return;
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the graph cannot be cut between '{}' and '{}': one writes in "
                                   "place to a value of the other, or both have one operator",
                                   before.path, unit.path),
                 .where = flow_.path(),
                 .remedy = "name another module"});
  }

  std::string distinct_name(const std::string& key) {
    const int times = names_[key]++;
    return times == 0 ? key : formatted("{}@{}", key, times);
  }

  void set_roles() {
    auto& layers = result_.layers;
    const auto is_block = [](const GraphLayer& layer) { return layer.role == LayerRole::kBlock; };
    if (std::none_of(layers.begin(), layers.end(), is_block)) {
      for (GraphLayer& layer : layers) layer.role = LayerRole::kBlock;
      return;
    }
    const auto first = std::find_if(layers.begin(), layers.end(), is_block);
    const auto last = std::find_if(layers.rbegin(), layers.rend(), is_block).base();
    for (auto layer = layers.begin(); layer < first; ++layer) layer->role = LayerRole::kEmbedding;
    for (auto layer = last; layer < layers.end(); ++layer)
      layer->role = layer + 1 == layers.end() ? LayerRole::kHead : LayerRole::kNorm;
  }

  void set_modules() {
    std::map<std::string, std::set<int>> layers_of;
    for (std::size_t l = 0; l < result_.layers.size(); ++l)
      for (const int i : result_.layers[l].nodes)
        for (const ModuleCall& call : flow_.node(i).modules)
          layers_of[call.path].insert(static_cast<int>(l));
    for (std::size_t l = 0; l < result_.layers.size(); ++l) {
      GraphLayer& layer = result_.layers[l];
      std::set<std::string_view> added;
      for (const int i : layer.nodes) {
        for (const ModuleCall& call : flow_.node(i).modules) {
          if (layers_of[call.path].size() != 1) continue;
          if (added.insert(call.path).second) layer.modules.push_back(call.path);
          break;
        }
      }
      if (!contains(layer.modules, layer.name))
        layer.modules.insert(layer.modules.begin(), layer.name);
      if (layer.modules == Names{layer.name}) layer.modules.clear();
    }
  }

  void group_free() {
    std::string last;
    for (int i = 0; i < flow_.num_nodes(); ++i) {
      if (!flow_.is_free_node(i)) continue;
      if (values_written(flow_.node(i)).empty()) continue;  // skip assertions
      const std::string path = flow_.node(i).module_path();
      if (result_.free.empty() || path != last) {
        GraphLayer layer;
        layer.name = distinct_name("free " + (path.empty() ? std::string("model") : path));
        layer.role = LayerRole::kOther;
        result_.free.push_back(std::move(layer));
      }
      last = path;
      result_.free.back().nodes.push_back(i);
    }
  }

  void connect() {
    std::vector<int> layer_of(flow_.module().nodes.size(), -1);
    const int num_free = static_cast<int>(result_.free.size());
    const auto at = [&](int k) -> GraphLayer& {
      return k < num_free ? result_.free[static_cast<std::size_t>(k)]
                          : result_.layers[static_cast<std::size_t>(k - num_free)];
    };
    const int num_layers = num_free + static_cast<int>(result_.layers.size());
    for (int k = 0; k < num_layers; ++k)
      for (const int i : at(k).nodes) layer_of[static_cast<std::size_t>(i)] = k;
    find_homes();
    for (int k = 0; k < num_layers; ++k) {
      GraphLayer& layer = at(k);
      std::map<int, int> times;  // number of reads by value
      for (const int i : layer.nodes) {
        for (const int value : values_read(flow_.node(i))) {
          if (++times[value] > 1) continue;
          const GraphInput* input = flow_.input_of(value);
          if (input && input->kind == InputKind::kParameter) {
            layer.parameters.push_back(
                {.value = value, .name = {}, .of = input->name, .tied_to = {}});
          } else if (input && input->kind != InputKind::kBatch) {
            layer.held.push_back(value);
          } else if (flow_.is_tensor(value)) {
            const int writer = flow_.writer_of(value);
            const int from = writer < 0 ? -1 : layer_of[static_cast<std::size_t>(writer)];
            if (from != k) layer.reads.push_back(value);
          }
        }
        for (const int value : values_written(flow_.node(i))) {
          if (!flow_.is_tensor(value)) continue;
          const std::vector<int>& readers = flow_.readers_of(value);
          const bool leaves = flow_.is_result(value) ||
                              std::any_of(readers.begin(), readers.end(), [&](int reader) {
                                const int to = layer_of[static_cast<std::size_t>(reader)];
                                return to >= 0 && to != k;
                              });
          if (leaves) layer.writes.push_back(value);
        }
      }
      add_sizes(layer);
      for (const int value : layer.reads)
        if (times[value] > 1 && is_shared(value, layer)) layer.shared.push_back(value);
      // Order: values of other layers, batch inputs, values of free layers.
      std::stable_sort(layer.reads.begin(), layer.reads.end(),
                       [&](int a, int b) { return kind_of_read(a) < kind_of_read(b); });
    }
  }

  void find_homes() {
    std::map<std::string, int> numbers;
    home_of_node_.resize(flow_.module().nodes.size());
    for (int i = 0; i < flow_.num_nodes(); ++i) {
      const int next = static_cast<int>(numbers.size());
      home_of_node_[static_cast<std::size_t>(i)] =
          numbers.emplace(units_.home_of(flow_.node(i)), next).first->second;
    }
    home_of_readers_.assign(flow_.module().values.size(), kNoHome);
    for (std::size_t v = 0; v < home_of_readers_.size(); ++v)
      for (const int reader : flow_.readers_of(static_cast<int>(v))) {
        const int home = home_of_node_[static_cast<std::size_t>(reader)];
        int& known = home_of_readers_[v];
        known = known == kNoHome || known == home ? home : kSeveralHomes;
      }
  }

  // True if a node outside the layer's block reads `value`, a result that several nodes read.
  // Layers cut from one block count as that block, so that the gradients of the readers are added
  // in the same order as in the uncut block.
  bool is_shared(int value, const GraphLayer& layer) const {
    if (flow_.input_of(value)) return false;
    const int home = home_of_node_[static_cast<std::size_t>(layer.nodes.front())];
    return home_of_readers_[static_cast<std::size_t>(value)] != home;
  }

  int kind_of_read(int value) const {
    if (flow_.input_of(value)) return 1;
    return flow_.is_free_value(value) ? 2 : 0;
  }

  // Adds batch inputs to `reads` for the size symbols that the layer needs.
  void add_sizes(GraphLayer& layer) const {
    std::set<std::string> needed, told;
    for (const int i : layer.nodes)
      for (const int value : values_read(flow_.node(i)))
        if (const GraphValue& of = flow_.module().values[static_cast<std::size_t>(value)];
            of.number)
          of.number->add_symbols(needed);
    const auto add_available = [&](int value) {
      for (const SizeExpression& size :
           flow_.module().values[static_cast<std::size_t>(value)].sizes)
        if (const auto symbol = size.symbol()) told.insert(*symbol);
    };
    for (const int value : layer.reads) add_available(value);
    if (std::includes(told.begin(), told.end(), needed.begin(), needed.end())) return;
    for (const GraphInput& input : flow_.module().inputs) {
      if (input.kind != InputKind::kBatch || input.value < 0 || !flow_.is_tensor(input.value))
        continue;
      const bool helps = std::any_of(needed.begin(), needed.end(), [&](const std::string& symbol) {
        return !told.contains(symbol) && has_symbol(input.value, symbol);
      });
      if (!helps) continue;
      add_once(layer.reads, input.value);
      add_available(input.value);
    }
  }

  bool has_symbol(int value, const std::string& symbol) const {
    const auto& sizes = flow_.module().values[static_cast<std::size_t>(value)].sizes;
    return std::any_of(sizes.begin(), sizes.end(),
                       [&](const SizeExpression& size) { return size.symbol() == symbol; });
  }

  const ExportedGraph& graph_;
  const GraphFlow& flow_;
  const GraphUnits& units_;
  GraphLayers result_;
  std::map<std::string, int> names_;
  static constexpr int kNoHome = -1, kSeveralHomes = -2;
  std::vector<int> home_of_node_, home_of_readers_;
};

}  // namespace

std::vector<std::string> modules_of_class(const GraphModule& module, const std::string& name) {
  Names paths;
  for (const GraphNode& node : module.nodes)
    for (const ModuleCall& call : node.modules)
      if (is_class(call.class_name, name) && !contains(paths, call.path))
        paths.push_back(call.path);
  return paths;
}

GraphLayers layers_of(const ExportedGraph& graph, const GraphModule& module, const GraphCuts& cuts,
                      const std::vector<std::string>& wanted) {
  const GraphFlow flow(graph, module, wanted);
  const GraphUnits units(flow, cuts);
  return Layering(graph, flow, units).made();
}

}  // namespace sluice::detail
