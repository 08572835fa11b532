#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace sluice {

struct LayerNames {
  std::string name;
  std::vector<std::string> reads, writes;
};

// Returns, for each cut (before layer `cuts[i]`), the values to send across it, in the order of
// their first write. batch_inputs are not sent. final_outputs are read after the last layer. Throws
// Error(kUsage) if a value is read before it is written, or if a layer writes a batch input.
std::vector<std::vector<std::string>> values_crossing_cuts(
    const std::vector<LayerNames>& layers, const std::vector<int>& cuts,
    const std::vector<std::string>& batch_inputs, const std::vector<std::string>& final_outputs);

// `free` are layers that any stage may run (ModelSpec::free_layers). Returns those that compute the
// values in `read` or inputs of such layers, ascending.
template <typename Layer, typename Writes>
std::vector<int> needed_free_layers(const std::vector<Layer>& free, std::set<std::string> read,
                                    const Writes& writes) {
  std::vector<int> needed;
  for (std::size_t i = free.size(); i-- > 0;) {
    const bool is_read = std::any_of(
        read.begin(), read.end(), [&](const std::string& name) { return writes(free[i], name); });
    if (!is_read) continue;
    needed.push_back(static_cast<int>(i));
    read.insert(free[i].reads.begin(), free[i].reads.end());
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

}  // namespace sluice
