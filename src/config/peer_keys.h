// The names of our keys in other libraries: for messages about an unknown key, and a section of the
// reference.
//
// Thread-safety: the table is immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

struct PeerKey {
  const char* library;
  const char*
      name;  // "pp_size": in any section; "model.flavor": in that one; "float8.*": all of it
  const char* here;  // what does it here, as Markdown
};

const std::vector<PeerKey>& peer_keys();

// The row of a name as it is written in the table, but that '-' is '_'; or null.
const PeerKey* find_peer_key(std::string_view name);

// "it is torchtitan's: here model.path or model.config"
std::string explain(const PeerKey& peer);

}  // namespace sluice::detail
