// How a checkpoint appears as a whole.
#pragma once

#include <cstdint>

namespace sluice {

enum class Commit : std::uint8_t {
  kRename,  // written under another name, then renamed
  kMarker,  // manifest.json, written last, decides: where renames are not atomic
};

}  // namespace sluice
