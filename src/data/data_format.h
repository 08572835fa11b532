// The format of data files: what data.format says, or by their endings.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "sluice/data.h"

namespace sluice::data {

// kText or kJsonl. Throws Error(kUsage) naming the file, at `where`, when its format is not built
// yet, or when `format` is kAuto and its ending (upper or lower case) is certainly not that of a
// text.
DataFormat format_of(const std::string& file, DataFormat format, const std::string& where);

// The one format of all options.files. Throws Error(kUsage) also for no files, and for mixed ones.
DataFormat common_format(const DataOptions& options);

}  // namespace sluice::data
