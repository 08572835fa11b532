// The values of an exported graph between its nodes: who writes and reads them, which are free,
// which nodes have to run, where the graph may be cut.
//
// Owns: these facts. Does not own: layers (graph_layers.h), facts of one node (graph_nodes.h).
// Invariants: order() has every node that is neither free nor a symbolic number and that a result
// or a buffer needs, in the order of the graph.
// Thread-safety: a value; it refers to the graph that it was made of.
#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

class GraphFlow {
 public:
  // wanted: names of results. Throws Error(kInput) for a name that the graph does not have, for a
  // result that is no tensor, and for a graph that changes a parameter in place.
  GraphFlow(const ExportedGraph& graph, const GraphModule& module,
            const std::vector<std::string>& wanted);

  const GraphModule& module() const { return module_; }
  const std::string& path() const { return graph_.path; }
  const GraphNode& node(int i) const { return module_.nodes[static_cast<std::size_t>(i)]; }
  int num_nodes() const { return static_cast<int>(module_.nodes.size()); }
  bool is_tensor(int value) const {
    return module_.values[static_cast<std::size_t>(value)].kind == GraphValue::Kind::kTensor;
  }

  // The input that is this value; nullptr: a node writes it.
  const GraphInput* input_of(int value) const { return input_of_[static_cast<std::size_t>(value)]; }
  // Nodes, of all; -1: none.
  int writer_of(int value) const { return writer_[static_cast<std::size_t>(value)]; }
  const std::vector<int>& readers_of(int value) const {
    return readers_[static_cast<std::size_t>(value)];
  }
  bool is_result(int value) const { return is_result_[static_cast<std::size_t>(value)]; }
  bool is_free_value(int value) const { return value_free_[static_cast<std::size_t>(value)]; }
  // Whether a node writes the value in place, or another value that may share its storage.
  bool is_written_value(int value) const { return written_[static_cast<std::size_t>(value)]; }
  bool is_free_node(int i) const { return is_free_[static_cast<std::size_t>(i)]; }

  const std::vector<int>& order() const { return order_; }
  // False: a cut before order()[p] would divide what has to stay together.
  bool may_cut_before(std::size_t p) const { return !no_cut_[p]; }

  // As GraphLayers has them.
  const std::vector<std::string>& value_names() const { return value_names_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return output_names_; }
  const std::vector<bool>& is_free() const { return is_free_; }
  const std::vector<bool>& is_written() const { return written_; }

 private:
  bool is_known_number(int i) const;
  void find_inputs();
  void find_writers();
  void find_outputs(const std::vector<std::string>& wanted);
  void find_written();
  void find_free();
  void find_order();
  void find_forbidden();
  int base_of(int value);
  void join_storages(int a, int b);
  const GraphNode& changing_node(int value) const;

  const ExportedGraph& graph_;
  const GraphModule& module_;
  std::vector<std::string> value_names_, inputs_, output_names_;
  std::vector<const GraphInput*> input_of_;  // by value
  std::vector<int> writer_, base_;           // by value
  std::vector<std::vector<int>> readers_;    // by value
  std::vector<bool> written_, value_free_;   // by value
  std::vector<bool> is_result_;              // by value
  std::vector<bool> is_free_;                // by node
  std::vector<int> outputs_, order_;
  std::vector<bool> no_cut_;
};

}  // namespace sluice::detail
