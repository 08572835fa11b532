// The data flow of an exported graph, which must outlive this object. Free values and nodes depend
// only on inputs, constants and sizes.
#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

class GraphFlow {
 public:
  // Throws Error(kInput) if a wanted result is missing or no tensor, or if a node changes a
  // parameter in place.
  GraphFlow(const ExportedGraph& graph, const GraphModule& module,
            const std::vector<std::string>& wanted);

  const GraphModule& module() const { return module_; }
  const std::string& path() const { return graph_.path; }
  const GraphNode& node(int i) const { return module_.nodes[static_cast<std::size_t>(i)]; }
  int num_nodes() const { return static_cast<int>(module_.nodes.size()); }
  bool is_tensor(int value) const {
    return module_.values[static_cast<std::size_t>(value)].kind == GraphValue::Kind::kTensor;
  }

  // Returns nullptr for a node's value.
  const GraphInput* input_of(int value) const { return input_of_[static_cast<std::size_t>(value)]; }
  // Return node indices. -1 if none.
  int writer_of(int value) const { return writer_[static_cast<std::size_t>(value)]; }
  const std::vector<int>& readers_of(int value) const {
    return readers_[static_cast<std::size_t>(value)];
  }
  bool is_result(int value) const { return is_result_[static_cast<std::size_t>(value)]; }
  bool is_free_value(int value) const { return value_free_[static_cast<std::size_t>(value)]; }
  // Whether a node writes in place to the value's storage.
  bool is_written_value(int value) const { return written_[static_cast<std::size_t>(value)]; }
  bool is_free_node(int i) const { return is_free_[static_cast<std::size_t>(i)]; }

  const std::vector<int>& order() const { return order_; }
  // False if a cut before order()[p] would separate nodes that must stay together.
  bool may_cut_before(std::size_t p) const { return !no_cut_[p]; }

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
  std::vector<const GraphInput*> input_of_;  // indexed by value
  std::vector<int> writer_, base_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> written_, value_free_;
  std::vector<bool> is_result_;
  std::vector<bool> is_free_;  // indexed by node
  std::vector<int> outputs_, order_;
  std::vector<bool> no_cut_;
};

}  // namespace sluice::detail
