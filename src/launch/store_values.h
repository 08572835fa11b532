// The keys and values of a store, and the answers to questions about them.
// Thread-safety: for one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/store_protocol.h"

namespace sluice {

class StoreValues {
 public:
  bool has(const std::vector<std::string>& keys) const;
  // Precondition: the key is there.
  const std::string& get(const std::string& key) const { return values_.at(key); }
  // All questions but kGet, kWait and kLine: reads the rest of the question, adds Answer and values
  // to `answer`. Throws Error(kPeer) for what is malformed.
  void answer(Ask ask, Unpacker& question, Packer& answer);

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace sluice
