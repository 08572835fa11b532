#include "archive/graph_layers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "archive/graph_nodes.h"
#include "base/format.h"
#include "family/aten_operators.h"
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

bool is_inside(const std::string& path, const std::string& holder) {
  return holder.empty() ? !path.empty() : path.starts_with(holder + ".");
}

// The class as a person would say it: the whole name, or its end behind a dot.
bool is_class(const std::string& full, const std::string& name) {
  return full == name || (full.size() > name.size() && full.ends_with(name) &&
                          full[full.size() - name.size() - 1] == '.');
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The path up to its first component that is a number; "": none is.
std::string element_of_list(const std::string& path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (begin > 0 && is_number(std::string_view(path).substr(begin, end - begin)))
      return path.substr(0, end);
    begin = end + 1;
  }
  return {};
}

// The unit of a node, before nodes without a unit have joined their neighbours.
struct Unit {
  std::string key;  // "": of none
  std::string path, class_name;
  bool is_block = false, is_named = false;
};

// The graph with what follows from its nodes.
class Layering {
 public:
  Layering(const ExportedGraph& graph, const GraphModule& module, const GraphCuts& cuts,
           const Names& wanted)
      : graph_(graph), module_(module), cuts_(cuts) {
    find_inputs();
    find_writers();
    find_outputs(wanted);
    find_free();
    find_forbidden();
    find_blocks();
  }

  GraphLayers made() {
    place();
    group_free();
    connect();
    name_uses();
    return std::move(result_);
  }

 private:
  bool is_tensor(int value) const {
    return module_.values[static_cast<std::size_t>(value)].kind == GraphValue::Kind::kTensor;
  }
  const GraphNode& node(int i) const { return module_.nodes[static_cast<std::size_t>(i)]; }
  int num_nodes() const { return static_cast<int>(module_.nodes.size()); }

  // A symbolic number that follows from sizes.
  bool is_known_number(int i) const {
    const std::vector<int> written = values_written(node(i));
    return !written.empty() && std::all_of(written.begin(), written.end(), [&](int value) {
      const GraphValue& of = module_.values[static_cast<std::size_t>(value)];
      return of.kind != GraphValue::Kind::kTensor && of.number.has_value();
    });
  }

  void find_inputs() {
    input_of_.assign(module_.values.size(), nullptr);
    result_.value_names.resize(module_.values.size());
    for (std::size_t v = 0; v < module_.values.size(); ++v)
      result_.value_names[v] = module_.values[v].name;
    for (const GraphInput& input : module_.inputs) {
      if (input.value < 0) continue;
      input_of_[static_cast<std::size_t>(input.value)] = &input;
      if (input.kind != InputKind::kBatch) continue;
      result_.value_names[static_cast<std::size_t>(input.value)] = input.name;
      if (is_tensor(input.value)) result_.inputs.push_back(input.name);
    }
  }

  void find_writers() {
    writer_.assign(module_.values.size(), -1);
    readers_.resize(module_.values.size());
    base_.resize(module_.values.size());
    for (std::size_t v = 0; v < base_.size(); ++v) base_[v] = static_cast<int>(v);
    for (int i = 0; i < num_nodes(); ++i) {
      const std::vector<int> read = values_read(node(i));
      for (const int value : read) readers_[static_cast<std::size_t>(value)].push_back(i);
      const bool shares = may_share_storage(node(i).target) || writes_in_place(node(i));
      for (const int value : values_written(node(i))) {
        writer_[static_cast<std::size_t>(value)] = i;
        if (shares && !read.empty())
          base_[static_cast<std::size_t>(value)] = base_[static_cast<std::size_t>(read.front())];
      }
    }
  }

  void find_outputs(const Names& wanted) {
    Names known;
    for (const GraphOutput& output : module_.outputs)
      if (output.kind == GraphOutput::Kind::kResult) known.push_back(output.name);
    for (const std::string& name : wanted) {
      const auto found = std::find_if(
          module_.outputs.begin(), module_.outputs.end(), [&](const GraphOutput& output) {
            return output.kind == GraphOutput::Kind::kResult && output.name == name;
          });
      if (found == module_.outputs.end()) {
        throw Error(ErrorKind::kInput, {.what = "the graph has no result '" + name + "'",
                                        .where = graph_.path,
                                        .remedy = suggest_name(name, known)});
      }
      const GraphArgument& argument = found->value;
      if (argument.kind != GraphArgument::Kind::kValue || !is_tensor(argument.value)) {
        throw Error(ErrorKind::kInput,
                    {.what = "the result '" + name + "' of the graph is not a tensor",
                     .where = graph_.path,
                     .remedy = "export the model with a tensor of this name"});
      }
      add_once(outputs_, argument.value);
      std::string& shown = result_.value_names[static_cast<std::size_t>(argument.value)];
      if (!input_of_[static_cast<std::size_t>(argument.value)]) shown = name;
      result_.outputs.push_back(shown);
    }
  }

  void find_free() {
    written_.assign(module_.values.size(), false);
    for (int i = 0; i < num_nodes(); ++i) {
      if (!writes_in_place(node(i))) continue;
      const std::vector<int> read = values_read(node(i));
      if (!read.empty())
        written_[static_cast<std::size_t>(base_[static_cast<std::size_t>(read.front())])] = true;
    }
    for (int i = 0; i < num_nodes(); ++i) {  // statistics of a batch norm that trains
      if (operator_of(node(i)) != "batch_norm" && operator_of(node(i)) != "instance_norm") continue;
      for (const char* name : {"running_mean", "running_var"}) {
        const GraphArgument* argument = node(i).argument(name);
        if (argument && argument->kind == GraphArgument::Kind::kValue)
          written_[static_cast<std::size_t>(argument->value)] = true;
      }
    }
    value_free_.assign(module_.values.size(), false);
    result_.is_free.assign(module_.nodes.size(), false);
    for (std::size_t v = 0; v < module_.values.size(); ++v) {
      const GraphInput* input = input_of_[v];
      value_free_[v] = input && input->kind != InputKind::kParameter && !written_[v];
    }
    for (int i = 0; i < num_nodes(); ++i) {
      const std::vector<int> read = values_read(node(i)), written = values_written(node(i));
      const auto is_free_value = [&](int value) {
        return value_free_[static_cast<std::size_t>(value)] ||
               module_.values[static_cast<std::size_t>(value)].number.has_value();
      };
      const bool is_written = std::any_of(written.begin(), written.end(), [&](int value) {
        return written_[static_cast<std::size_t>(base_[static_cast<std::size_t>(value)])];
      });
      const bool is_free = !is_known_number(i) && !writes_in_place(node(i)) && !is_written &&
                           !draws_random_numbers(node(i)) &&
                           std::all_of(read.begin(), read.end(), is_free_value);
      result_.is_free[static_cast<std::size_t>(i)] = is_free;
      if (is_free)
        for (const int value : written) value_free_[static_cast<std::size_t>(value)] = true;
    }
    // Assertions of free values are nobody's need: shapes are checked by rules.
    for (int i = 0; i < num_nodes(); ++i)
      if (!result_.is_free[static_cast<std::size_t>(i)] && !is_known_number(i)) order_.push_back(i);
  }

  // no_cut_[p]: a cut before order_[p] would divide what has to stay together.
  void find_forbidden() {
    no_cut_.assign(order_.size() + 1, false);
    std::vector<int> position(module_.nodes.size(), -1);
    for (std::size_t p = 0; p < order_.size(); ++p)
      position[static_cast<std::size_t>(order_[p])] = static_cast<int>(p);
    const auto forbid = [&](int first, int last) {  // between positions
      for (int p = first + 1; p <= last; ++p) no_cut_[static_cast<std::size_t>(p)] = true;
    };
    const auto made_at = [&](int value) {
      const int writer = writer_[static_cast<std::size_t>(value)];
      return writer < 0 ? -1 : position[static_cast<std::size_t>(writer)];
    };
    std::map<int, int> first_of_group;
    for (std::size_t p = 0; p < order_.size(); ++p) {
      const int here = static_cast<int>(p);
      const GraphNode& own = node(order_[p]);
      const std::vector<int> read = values_read(own);
      if (writes_in_place(own) && !read.empty()) {
        const int made = made_at(base_[static_cast<std::size_t>(read.front())]);
        if (made >= 0) forbid(made, here);
      }
      for (const int value : read) {  // a number that no expression gives cannot cross
        const GraphValue& of = module_.values[static_cast<std::size_t>(value)];
        if (of.kind == GraphValue::Kind::kTensor || of.number) continue;
        if (made_at(value) >= 0) forbid(made_at(value), here);
      }
      if (own.higher_order >= 0) {
        const auto [first, added] = first_of_group.emplace(own.higher_order, here);
        if (!added) forbid(first->second, here);
      }
    }
  }

  // ---- blocks and units ----

  void find_blocks() {
    std::set<std::string> classes;
    for (const int i : order_) {
      for (const ModuleCall& call : node(i).modules) {
        if (!cuts_.layer_class.empty()) {
          classes.insert(call.class_name.substr(call.class_name.rfind('.') + 1));
          if (is_class(call.class_name, cuts_.layer_class)) {
            blocks_.insert(call.path);
            break;
          }
        } else if (const std::string block = element_of_list(call.path); !block.empty()) {
          blocks_.insert(block);
          break;
        }
      }
    }
    if (blocks_.empty() && !cuts_.layer_class.empty()) {
      throw Error(
          ErrorKind::kUsage,
          {.what = "the graph has no module of class '" + cuts_.layer_class + "'",
           .where = "`layer_class`",
           .remedy = suggest_name(cuts_.layer_class, Names(classes.begin(), classes.end()))});
    }
    if (!blocks_.empty()) return;
    // Without blocks, the modules next to the root that the model is made of.
    std::string opened;
    while (true) {
      std::set<std::string> children;
      for (const int i : order_)
        for (const ModuleCall& call : node(i).modules)
          if (is_inside(call.path, opened) &&
              call.path.find('.', opened.empty() ? 0 : opened.size() + 1) == std::string::npos)
            children.insert(call.path);
      if (children.size() > 1) blocks_ = children;
      if (children.size() != 1) break;
      opened = *children.begin();
    }
  }

  bool is_named(const std::string& path) const { return contains(cuts_.modules, path); }
  bool holds_named(const std::string& path) const {
    return std::any_of(cuts_.modules.begin(), cuts_.modules.end(),
                       [&](const std::string& name) { return is_inside(name, path); });
  }
  bool holds_blocks(const std::string& path) const {
    const auto next = blocks_.lower_bound(path + ".");
    return next != blocks_.end() && is_inside(*next, path);
  }

  Unit unit_of(const GraphNode& of) const {
    Unit unit;
    for (const ModuleCall& call : of.modules) {
      const bool block = blocks_.contains(call.path), named = is_named(call.path);
      // The innermost module that is named, else the block.
      if (named || (block && unit.key.empty()))
        unit = {.key = call.key,
                .path = call.path,
                .class_name = call.class_name,
                .is_block = unit.is_block || block,
                .is_named = named};
      if (!unit.key.empty()) continue;
      if (holds_blocks(call.path) || holds_named(call.path)) continue;
      unit = {.key = call.key, .path = call.path, .class_name = call.class_name};
    }
    return unit;
  }

  double bytes_of(int value) const {
    double bytes =
        static_cast<double>(dtype_size(module_.values[static_cast<std::size_t>(value)].dtype));
    for (const SizeExpression& size : module_.values[static_cast<std::size_t>(value)].sizes)
      bytes *= size.is_number() ? static_cast<double>(size.number()) : 64.0;  // any size will do
    return bytes;
  }
  static std::int64_t dtype_size(const std::string& dtype) {
    return dtype.starts_with("complex") ? 8 : dtype_bytes(dtype);
  }

  // Bytes that would cross a cut before order_[p].
  double crossing_at(std::size_t p) const {
    double bytes = 0;
    std::set<int> seen;
    for (std::size_t k = 0; k < p; ++k) {
      for (const int value : values_written(node(order_[k]))) {
        if (!is_tensor(value)) continue;
        const std::vector<int>& readers = readers_[static_cast<std::size_t>(value)];
        const bool later =
            contains(outputs_, value) ||
            std::any_of(readers.begin(), readers.end(), [&](int reader) {
              return position_of_[static_cast<std::size_t>(reader)] >= static_cast<int>(p);
            });
        if (later && seen.insert(value).second) bytes += bytes_of(value);
      }
    }
    return bytes;
  }

  // Nodes [begin, end) of no unit: those before the returned position join what is before them.
  std::size_t place_of_cut(const std::vector<Unit>& units, std::size_t begin,
                           std::size_t end) const {
    if (begin == 0) return begin;
    if (end == units.size() || units[begin - 1].key == units[end].key) return end;
    std::size_t place = begin;
    double least = crossing_at(begin);
    for (std::size_t at = begin + 1; at <= end; ++at) {
      const double bytes = crossing_at(at);
      if (bytes <= least) std::tie(least, place) = std::pair(bytes, at);
    }
    return place;
  }

  void place() {
    position_of_.assign(module_.nodes.size(), -1);
    for (std::size_t p = 0; p < order_.size(); ++p)
      position_of_[static_cast<std::size_t>(order_[p])] = static_cast<int>(p);
    std::vector<Unit> units;
    for (const int i : order_) units.push_back(unit_of(node(i)));
    std::set<std::string> with_parameters;  // keys of units
    for (std::size_t p = 0; p < order_.size(); ++p) {
      const std::vector<int> read = values_read(node(order_[p]));
      if (std::any_of(read.begin(), read.end(), [&](int value) {
            const GraphInput* input = input_of_[static_cast<std::size_t>(value)];
            return input && input->kind == InputKind::kParameter;
          }))
        with_parameters.insert(units[p].key);
    }
    for (Unit& unit : units) {
      const bool alone = unit.is_block || unit.is_named || with_parameters.contains(unit.key);
      if (!alone) unit.key.clear();
    }
    // Nodes of no unit join the one before or the one behind them, where fewer bytes cross.
    for (std::size_t p = 0; p < units.size();) {
      std::size_t end = p;
      while (end < units.size() && units[end].key.empty()) ++end;
      if (end == p) {
        ++p;
        continue;
      }
      const std::size_t split = place_of_cut(units, p, end);
      for (std::size_t k = p; k < end; ++k) {
        if (k < split) {
          units[k] = units[p - 1];
        } else if (end < units.size()) {
          units[k] = units[end];
        } else {
          units[k].key = "model";  // a graph without any unit
        }
      }
      p = end;
    }
    std::vector<std::size_t> begins;
    for (std::size_t p = 0; p < units.size(); ++p)
      if (p == 0 || units[p].key != units[p - 1].key) begins.push_back(p);
    make_layers(units, begins);
  }

  void make_layers(const std::vector<Unit>& units, const std::vector<std::size_t>& begins) {
    for (std::size_t k = 0; k < begins.size(); ++k) {
      const std::size_t begin = begins[k];
      const std::size_t end = k + 1 < begins.size() ? begins[k + 1] : order_.size();
      const bool joins = no_cut_[begin] && !result_.layers.empty();
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
      for (std::size_t p = begin; p < end; ++p) layer.nodes.push_back(order_[p]);
    }
    set_roles();
    set_modules();
  }

  // A name that was said has to be a place where a cut can be, before it and behind it.
  void require_not_named(const Unit& before, const Unit& unit) const {
    if (!before.is_named && !unit.is_named) return;
    throw Error(
        ErrorKind::kUsage,
        {.what = formatted("the graph cannot be cut between '{}' and '{}': what one makes is "
                           "written in place by the other, or they are of one operator",
                           before.path, unit.path),
         .where = graph_.path,
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

  // Modules all of whose nodes are in one layer, the outermost.
  void set_modules() {
    std::map<std::string, std::set<int>> layers_of;  // by path
    for (std::size_t l = 0; l < result_.layers.size(); ++l)
      for (const int i : result_.layers[l].nodes)
        for (const ModuleCall& call : node(i).modules)
          layers_of[call.path].insert(static_cast<int>(l));
    for (std::size_t l = 0; l < result_.layers.size(); ++l) {
      GraphLayer& layer = result_.layers[l];
      for (const int i : layer.nodes) {
        for (const ModuleCall& call : node(i).modules) {
          if (layers_of[call.path].size() != 1) continue;
          if (!contains(layer.modules, call.path)) layer.modules.push_back(call.path);
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
    for (int i = 0; i < num_nodes(); ++i) {
      if (!result_.is_free[static_cast<std::size_t>(i)]) continue;
      if (values_written(node(i)).empty()) continue;  // an assertion
      const std::string path = node(i).module_path();
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

  // ---- what layers read and write ----

  void connect() {
    std::vector<int> layer_of(module_.nodes.size(), -1);
    const int num_free = static_cast<int>(result_.free.size());
    const auto at = [&](int k) -> GraphLayer& {
      return k < num_free ? result_.free[static_cast<std::size_t>(k)]
                          : result_.layers[static_cast<std::size_t>(k - num_free)];
    };
    const int num_layers = num_free + static_cast<int>(result_.layers.size());
    for (int k = 0; k < num_layers; ++k)
      for (const int i : at(k).nodes) layer_of[static_cast<std::size_t>(i)] = k;
    for (int k = 0; k < num_layers; ++k) {
      GraphLayer& layer = at(k);
      for (const int i : layer.nodes) {
        for (const int value : values_read(node(i))) {
          const GraphInput* input = input_of_[static_cast<std::size_t>(value)];
          if (input && input->kind == InputKind::kParameter) {
            const bool known = std::any_of(layer.parameters.begin(), layer.parameters.end(),
                                           [&](const GraphUse& use) { return use.value == value; });
            if (!known)
              layer.parameters.push_back(
                  {.value = value, .name = {}, .of = input->name, .tied_to = {}});
          } else if (input && input->kind != InputKind::kBatch) {
            add_once(layer.held, value);
          } else if (is_tensor(value)) {
            const int writer = writer_[static_cast<std::size_t>(value)];
            const int from = writer < 0 ? -1 : layer_of[static_cast<std::size_t>(writer)];
            if (from != k) add_once(layer.reads, value);
          }
        }
        for (const int value : values_written(node(i))) {
          if (!is_tensor(value)) continue;
          const std::vector<int>& readers = readers_[static_cast<std::size_t>(value)];
          const bool leaves = contains(outputs_, value) ||
                              std::any_of(readers.begin(), readers.end(), [&](int reader) {
                                const int to = layer_of[static_cast<std::size_t>(reader)];
                                return to >= 0 && to != k;
                              });
          if (leaves) add_once(layer.writes, value);
        }
      }
      add_sizes(layer);
      for (const int value : layer.reads)
        if (is_shared(value, layer)) layer.shared.push_back(value);
      // Values that layers write come first, then the batch, then values of free layers.
      std::stable_sort(layer.reads.begin(), layer.reads.end(),
                       [&](int a, int b) { return kind_of_read(a) < kind_of_read(b); });
    }
  }

  // Read by several nodes of the layer, and in another block, too. A block that is cut in two is
  // still one: what its parts read adds up as where it is whole.
  bool is_shared(int value, const GraphLayer& layer) const {
    const std::vector<int>& readers = readers_[static_cast<std::size_t>(value)];
    const auto here = std::count_if(readers.begin(), readers.end(),
                                    [&](int reader) { return contains(layer.nodes, reader); });
    if (here < 2 || input_of_[static_cast<std::size_t>(value)]) return false;
    const std::string home = home_of(node(layer.nodes.front()));
    return std::any_of(readers.begin(), readers.end(),
                       [&](int reader) { return home_of(node(reader)) != home; });
  }

  // The block that a node is in, else the outermost module that holds none.
  std::string home_of(const GraphNode& of) const {
    for (const ModuleCall& call : of.modules)
      if (blocks_.contains(call.path) || !holds_blocks(call.path)) return call.path;
    return {};
  }

  int kind_of_read(int value) const {
    if (input_of_[static_cast<std::size_t>(value)]) return 1;
    return value_free_[static_cast<std::size_t>(value)] ? 2 : 0;
  }

  // A symbol that a layer needs, and nothing that it reads tells, is told by an input of the batch.
  void add_sizes(GraphLayer& layer) const {
    std::set<std::string> needed, told;
    for (const int i : layer.nodes)
      for (const int value : values_read(node(i)))
        if (const GraphValue& of = module_.values[static_cast<std::size_t>(value)]; of.number)
          of.number->add_symbols(needed);
    const auto add_told = [&](int value) {
      for (const SizeExpression& size : module_.values[static_cast<std::size_t>(value)].sizes)
        if (const auto symbol = size.symbol()) told.insert(*symbol);
    };
    for (const int value : layer.reads) add_told(value);
    for (const GraphInput& input : module_.inputs) {
      if (input.kind != InputKind::kBatch || input.value < 0 || !is_tensor(input.value)) continue;
      const bool helps = std::any_of(needed.begin(), needed.end(), [&](const std::string& symbol) {
        return !told.contains(symbol) && has_symbol(input.value, symbol);
      });
      if (!helps) continue;
      add_once(layer.reads, input.value);
      add_told(input.value);
    }
  }

  bool has_symbol(int value, const std::string& symbol) const {
    const auto& sizes = module_.values[static_cast<std::size_t>(value)].sizes;
    return std::any_of(sizes.begin(), sizes.end(),
                       [&](const SizeExpression& size) { return size.symbol() == symbol; });
  }

  // {name, first name of its tie group}.
  std::map<std::string, std::string> tied_names() const {
    std::map<std::string, std::string> tied;
    for (const auto& [name, first] : graph_.facts.ties) tied[name] = first;
    std::map<std::string, std::string> first_of;  // by place in the archive
    for (const GraphTensor& tensor : graph_.tensors) {
      if (tensor.bytes == 0 || !tensor.is_parameter) continue;
      const auto [first, added] =
          first_of.emplace(formatted("{} {}", tensor.record, tensor.storage_offset), tensor.name);
      if (!added) tied.emplace(tensor.name, first->second);
    }
    return tied;
  }

  // A use has the name of the module that reads it, where the tensor has one there; else, the first
  // of all, the first name of the tie group, or "NAME@1". A first name that no module reads comes
  // before, as checkpoints of transformers have it (T5's "shared").
  void name_uses() {
    const std::map<std::string, std::string> tied = tied_names();
    std::map<std::string, Names> group_of;  // by first name
    for (const auto& [name, first] : tied) group_of[first].push_back(name);
    std::map<std::string, std::set<std::string>> paths_of;  // of the modules that read the group
    for (const GraphLayer& layer : result_.layers) {
      for (const GraphUse& use : layer.parameters) {
        const auto found = tied.find(use.of);
        paths_of[found == tied.end() ? use.of : found->second].insert(reader_of(use));
      }
    }
    std::map<std::string, std::string> first_use;  // first name -> full name
    std::set<std::string> taken;
    for (GraphLayer& layer : result_.layers) {
      for (GraphUse& use : layer.parameters) {
        const auto found = tied.find(use.of);
        const std::string first = found == tied.end() ? use.of : found->second;
        const bool is_first = !first_use.contains(first);
        use.name = is_first && !paths_of[first].contains(module_of(first))
                       ? first
                       : name_of_use(use, first, group_of[first], taken);
        if (is_first)
          first_use[first] = use.name;
        else
          use.tied_to = first_use[first];
        taken.insert(use.name);
      }
    }
    for (const GraphInput& input : module_.inputs) {
      if (input.kind != InputKind::kParameter || result_.layers.empty()) continue;
      const auto found = tied.find(input.name);
      const std::string first = found == tied.end() ? input.name : found->second;
      if (!first_use.emplace(first, first).second) continue;
      result_.layers.back().unread.push_back(first);
    }
  }

  std::string reader_of(const GraphUse& use) const {
    return node(readers_[static_cast<std::size_t>(use.value)].front()).module_path();
  }
  static std::string module_of(const std::string& parameter) {
    const std::size_t dot = parameter.rfind('.');
    return dot == std::string::npos ? "" : parameter.substr(0, dot);
  }

  std::string name_of_use(const GraphUse& use, const std::string& first, const Names& group,
                          const std::set<std::string>& taken) const {
    const std::string path = reader_of(use);
    if (!taken.contains(first) && (group.empty() || module_of(first) == path)) return first;
    for (const std::string& name : group)
      if (!taken.contains(name) && module_of(name) == path) return name;
    if (!taken.contains(first)) return first;
    for (int times = 1;; ++times)
      if (std::string name = formatted("{}@{}", first, times); !taken.contains(name)) return name;
  }

  const ExportedGraph& graph_;
  const GraphModule& module_;
  const GraphCuts& cuts_;
  GraphLayers result_;
  std::vector<const GraphInput*> input_of_;  // by value
  std::vector<int> writer_, base_;           // by value
  std::vector<std::vector<int>> readers_;    // by value
  std::vector<bool> written_, value_free_;   // by value
  std::vector<int> outputs_;
  std::vector<int> order_;  // nodes of layers
  std::vector<bool> no_cut_;
  std::set<std::string> blocks_;  // paths
  std::vector<int> position_of_;
  std::map<std::string, int> names_;
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
  return Layering(graph, module, cuts, wanted).made();
}

}  // namespace sluice::detail
