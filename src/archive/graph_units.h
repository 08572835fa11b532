// Units of an exported graph: for each node that runs, the block or module that it is a part of.
//
// Owns: which modules are blocks, which unit a node without one joins. Does not own: layers of
// units (graph_layers.h).
// Thread-safety: a value; it refers to what it was made of.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "archive/graph_flow.h"
#include "archive/graph_layers.h"
#include "archive/size_number.h"

namespace sluice::detail {

struct GraphUnit {
  std::string key;  // "": of none
  std::string path, class_name;
  bool is_block = false, is_named = false;
};

// The class as a person would say it: the whole name, or its end behind a dot.
bool is_class(const std::string& full, const std::string& name);

class GraphUnits {
 public:
  // Throws Error(kUsage) for a class that no module has, with the nearest.
  GraphUnits(const GraphFlow& flow, const GraphCuts& cuts);

  // The units of GraphFlow::order(); each has a key.
  std::vector<GraphUnit> in_order() const;

  // The block that a node is in, else the outermost module that holds none.
  std::string home_of(const GraphNode& of) const;

 private:
  void find_blocks();
  bool is_named(const std::string& path) const;
  bool holds_named(const std::string& path) const;
  bool holds_blocks(const std::string& path) const;
  GraphUnit unit_of(const GraphNode& of) const;
  WideNumber bytes_of(int value) const;
  void find_crossing();
  std::size_t place_of_cut(const std::vector<GraphUnit>& units, std::size_t begin,
                           std::size_t end) const;

  const GraphFlow& flow_;
  const GraphCuts& cuts_;
  std::set<std::string> blocks_;      // paths
  std::vector<int> position_of_;      // by node
  std::vector<WideNumber> crossing_;  // by place in flow_.order(): bytes that cross a cut before it
};

}  // namespace sluice::detail
