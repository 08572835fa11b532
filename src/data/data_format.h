// Chooses the data format from `data.format` or the file endings.
#pragma once

#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

// Replaces kAuto by the format of the file's ending. Throws Error(kInput) for an unsupported
// ending, an unreadable file, or an .idx without its .bin.
DataFormat format_of(const std::string& file, DataFormat format, const std::string& where);

// Returns the .bin for the .idx of a Megatron pair.
std::string data_file_of(const std::string& file, DataFormat format);

std::vector<std::string> files_read_of(const std::string& file, DataFormat format);

// Throws Error(kUsage) if there are no files or their formats differ.
DataFormat common_format(const std::vector<std::string>& files, DataFormat format);

}  // namespace sluice::data
