// Chooses the format of data files from `data.format` or the file endings. file_content.h checks
// the contents.
#pragma once

#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

// Never returns kAuto. Throws Error(kInput) at `where` if the file cannot be read, if kAuto meets
// the ending of an unsupported format, or if an .idx has no .bin beside it.
DataFormat format_of(const std::string& file, DataFormat format, const std::string& where);

// Maps the .idx of a Megatron pair to its .bin. Returns other files unchanged.
std::string data_file_of(const std::string& file, DataFormat format);

// Returns the file and, for Megatron, its .idx.
std::vector<std::string> files_read_of(const std::string& file, DataFormat format);

// Throws Error(kUsage) if there are no files or their formats differ.
DataFormat common_format(const std::vector<std::string>& files, DataFormat format);

}  // namespace sluice::data
