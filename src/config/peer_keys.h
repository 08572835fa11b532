// Other libraries' names for sluice's keys, for error messages, the key reference and `sluice
// config import`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/import/conversions.h"

namespace sluice::detail {

struct PeerKey {
  const char* library;
  // "pp_size": in any section; "model.flavor": in that section; "float8.*": the whole section;
  // "liger_*": all that begin so
  const char* name;
  const char* here;  // the equivalent in sluice, in Markdown
  // How `sluice config import` translates the key. Null: by copying the value to the key that
  // `here` names alone; otherwise the key is left out and `here` is the reason.
  Conversion convert = nullptr;
};

const std::vector<PeerKey>& peer_keys();

// Whether the row is about this key, whose name has no '-'.
bool names_key(const PeerKey& peer, std::string_view name);

// Returns null for unknown names. Treats '-' as '_'.
const PeerKey* find_peer_key(std::string_view name);

std::string explain(const PeerKey& peer);

}  // namespace sluice::detail
