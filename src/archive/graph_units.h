// Assigns each node that runs to a unit: a block or module. The constructor's arguments must
// outlive this object.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "archive/graph_flow.h"
#include "archive/graph_layers.h"
#include "archive/size_number.h"

namespace sluice::detail {

struct GraphUnit {
  std::string key;
  std::string path, class_name;
  bool is_block = false, is_named = false;
};

// Whether `name` is the full class name, or its end after a dot.
bool is_class(const std::string& full, const std::string& name);

class GraphUnits {
 public:
  // Throws Error(kUsage) if no module has the class of `cuts`.
  GraphUnits(const GraphFlow& flow, const GraphCuts& cuts);

  std::vector<GraphUnit> in_order() const;

  // Returns the node's block, or the outermost module that contains no block.
  std::string home_of(const GraphNode& of) const;

 private:
  void find_blocks();
  bool is_named(const std::string& path) const;
  bool contains_named(const std::string& path) const;
  bool contains_blocks(const std::string& path) const;
  GraphUnit unit_of(const GraphNode& of) const;
  WideNumber bytes_of(int value) const;
  void find_crossing();
  std::size_t cheapest_cut(const std::vector<GraphUnit>& units, std::size_t begin,
                           std::size_t end) const;

  const GraphFlow& flow_;
  const GraphCuts& cuts_;
  std::set<std::string> blocks_;
  std::vector<int> position_of_;
  std::vector<WideNumber> crossing_;  // bytes that cross a cut before each position
};

}  // namespace sluice::detail
