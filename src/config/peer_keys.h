// Other libraries' names for sluice's keys, for error messages and the key reference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

struct PeerKey {
  const char* library;
  const char*
      // "pp_size": in any section; "model.flavor": in that section; "float8.*": the whole section
      name;
  const char* here;  // the equivalent in sluice, in Markdown
};

const std::vector<PeerKey>& peer_keys();

// Returns null for unknown names. Treats '-' as '_'.
const PeerKey* find_peer_key(std::string_view name);

std::string explain(const PeerKey& peer);

}  // namespace sluice::detail
