#pragma once

#include <map>
#include <string>
#include <vector>

#include "job/store_protocol.h"

namespace sluice {

class StoreValues {
 public:
  bool has(const std::vector<std::string>& keys) const;
  const std::string& get(const std::string& key) const { return values_.at(key); }
  // Handles every request except kGet, kWait and kLine. Throws Error(kPeer) if malformed.
  void answer(Ask ask, Unpacker& question, Packer& answer);

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace sluice
