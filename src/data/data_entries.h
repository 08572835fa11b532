// The weighted entries (groups of files) of a data set, and the order of their sequences.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/sequence_order.h"
#include "data/sequence_source.h"
#include "sluice/data.h"

namespace sluice::data {

class DataEntries {
 public:
  explicit DataEntries(const TokenDataOptions& options);

  using Place = SequenceOrder::Place;
  Place at(DataPosition position, std::int64_t ahead) const { return order_.at(position, ahead); }
  const SequenceSource& source(std::size_t entry) const { return *sources_[entry]; }
  const std::vector<std::unique_ptr<SequenceSource>>& sources() const { return sources_; }
  std::uint64_t num_sequences() const { return order_.num_sequences(); }
  std::vector<std::string> warnings() const { return tokens_->warnings(); }
  std::map<std::string, std::string> choices() const { return tokens_->choices(); }

 private:
  static std::vector<std::uint64_t> sizes_of(
      const std::vector<std::unique_ptr<SequenceSource>>& sources);

  std::shared_ptr<const TextTokens> tokens_;
  std::vector<std::unique_ptr<SequenceSource>> sources_;
  SequenceOrder order_;
};

}  // namespace sluice::data
