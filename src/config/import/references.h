// OmegaConf's references in torchtune's configurations, such as "${output_dir}/logs".
#pragma once

#include <string>

#include "base/json.h"

namespace sluice::detail {

// Replaces references to top-level settings. Others, such as ${eval:..}, stay as they are. Throws
// Error(kUsage) at `file` for references in a circle and for text of more than 1 MiB.
Json with_references(const Json& settings, const std::string& file);

}  // namespace sluice::detail
