#include "archive/graph_uses.h"

#include <map>
#include <set>
#include <string>

#include "base/format.h"

namespace sluice::detail {
namespace {

using InputKind = GraphInput::Kind;
using Names = std::vector<std::string>;

class UseNames {
 public:
  UseNames(const ExportedGraph& graph, const GraphFlow& flow, std::vector<GraphLayer>& layers)
      : graph_(graph), flow_(flow), layers_(layers) {}

  // Names a use after the tensor in the module that reads it. Otherwise the first use gets the
  // first name of the tied tensors, and later uses "NAME@1". As in transformers' checkpoints, a
  // first name that no module reads has precedence (T5's "shared").
  void name() {
    const std::map<std::string, std::string> tied = tied_names();
    std::map<std::string, Names> group_of;
    for (const auto& [name, first] : tied) group_of[first].push_back(name);
    std::map<std::string, std::set<std::string>> paths_of;  // modules that read tied tensors
    for (const GraphLayer& layer : layers_) {
      for (const GraphUse& use : layer.parameters) {
        const auto found = tied.find(use.of);
        paths_of[found == tied.end() ? use.of : found->second].insert(reader_of(use));
      }
    }
    std::map<std::string, std::string> first_use;
    std::set<std::string> taken;
    for (GraphLayer& layer : layers_) {
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
    for (const GraphInput& input : flow_.module().inputs) {
      if (input.kind != InputKind::kParameter || layers_.empty()) continue;
      const auto found = tied.find(input.name);
      const std::string first = found == tied.end() ? input.name : found->second;
      if (!first_use.emplace(first, first).second) continue;
      layers_.back().unread.push_back(first);
    }
  }

 private:
  // Returns, by tensor, the first name of the tied tensors.
  std::map<std::string, std::string> tied_names() const {
    std::map<std::string, std::string> tied;
    for (const auto& [name, first] : graph_.facts.ties) tied[name] = first;
    std::map<std::string, std::string> first_of;
    for (const GraphTensor& tensor : graph_.tensors) {
      if (tensor.bytes == 0 || !tensor.is_parameter) continue;
      const auto [first, added] =
          first_of.emplace(formatted("{} {}", tensor.record, tensor.storage_offset), tensor.name);
      if (!added) tied.emplace(tensor.name, first->second);
    }
    return tied;
  }

  std::string reader_of(const GraphUse& use) const {
    return flow_.node(flow_.readers_of(use.value).front()).module_path();
  }
  static std::string module_of(const std::string& parameter) {
    const std::size_t dot = parameter.rfind('.');
    return dot == std::string::npos ? "" : parameter.substr(0, dot);
  }

  std::string name_of_use(const GraphUse& use, const std::string& first, const Names& group,
                          const std::set<std::string>& taken) {
    const std::string path = reader_of(use);
    if (!taken.contains(first) && (group.empty() || module_of(first) == path)) return first;
    for (const std::string& name : group)
      if (!taken.contains(name) && module_of(name) == path) return name;
    if (!taken.contains(first)) return first;
    for (int& times = times_[first];;)
      if (std::string name = formatted("{}@{}", first, ++times); !taken.contains(name)) return name;
  }

  const ExportedGraph& graph_;
  const GraphFlow& flow_;
  std::vector<GraphLayer>& layers_;
  std::map<std::string, int> times_;
};

}  // namespace

void name_uses(const ExportedGraph& graph, const GraphFlow& flow, std::vector<GraphLayer>& layers) {
  UseNames(graph, flow, layers).name();
}

}  // namespace sluice::detail
