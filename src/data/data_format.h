// The format of data files: data.format, or by their endings. A .bin is told apart by its first
// bytes and by the files beside it. The content is checked in file_content.h.
// Thread-safety: pure functions of the files.
#pragma once

#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

// Never kAuto. Throws Error(kInput) naming the file: at `where`, when `format` is kAuto and its
// ending (upper or lower case) is that of a format which is neither text nor rows nor ids; for an
// .idx without its .bin; or a file that cannot be read.
DataFormat format_of(const std::string& file, DataFormat format, const std::string& where);

// The name under which a file is read: of Megatron's pairs the .bin, also where the .idx is named.
std::string data_file_of(const std::string& file, DataFormat format);

// All that is read of it: of Megatron's pairs the .idx too.
std::vector<std::string> files_read_of(const std::string& file, DataFormat format);

// The one format of all files. Throws Error(kUsage) also for no files, and for mixed ones.
DataFormat common_format(const std::vector<std::string>& files, DataFormat format);

}  // namespace sluice::data
