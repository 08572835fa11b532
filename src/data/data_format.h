// Chooses the data format from `data.format` or the file endings.
#pragma once

#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

// Returns `format`, or with kAuto the format by the file's ending. Throws Error(kInput) for an
// unreadable file, an unsupported ending, or an .idx without its .bin.
DataFormat format_of(const std::string& file, DataFormat format, const std::string& where);

// Returns the .bin for the .idx of a Megatron pair, and other names unchanged.
std::string data_file_of(const std::string& file, DataFormat format);

std::vector<std::string> files_read_of(const std::string& file, DataFormat format);

// Returns the format of all files. Throws Error(kUsage) if there are no files or their formats
// differ.
DataFormat common_format(const std::vector<std::string>& files, DataFormat format);

}  // namespace sluice::data
