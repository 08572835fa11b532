// The format of data files: what data.format says, or by their endings, and of a .bin by what it
// starts with and what lies beside it.
// Thread-safety: pure functions of the files.
#pragma once

#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

// Never kAuto. Throws Error(kUsage) naming the file, at `where`, when `format` is kAuto and its
// ending (upper or lower case) is certainly not that of a text; Error(kInput) for an .idx without
// its .bin, or a .bin that cannot be read.
DataFormat format_of(const std::string& file, DataFormat format, const std::string& where);

// The name under which a file is read: of Megatron's pairs the .bin, also where the .idx is named.
std::string data_file_of(const std::string& file, DataFormat format);

// All that is read of it: of Megatron's pairs the .idx too.
std::vector<std::string> files_read_of(const std::string& file, DataFormat format);

// The one format of all files. Throws Error(kUsage) also for no files, and for mixed ones.
DataFormat common_format(const std::vector<std::string>& files, DataFormat format);

}  // namespace sluice::data
