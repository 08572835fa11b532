// The format of a data file: what data.format says, or by its ending.
// Thread-safety: pure functions.
#pragma once

#include <string>

namespace sluice::detail {

enum class DataFormat { kText, kJsonl };

// Throws Error(kUsage) naming the file, at `where`, when its format is not built yet, or when
// `format` is "auto" and its ending (upper or lower case) is certainly not that of a text.
DataFormat data_format(const std::string& file, const std::string& format,
                       const std::string& where);

}  // namespace sluice::detail
