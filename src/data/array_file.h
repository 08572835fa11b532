// Arrays in files as fields of a row: large values, as the pixels of images, need not be text. A
// .npy file of numpy holds one array, a safetensors file one or more, by name. Formats:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html and
// https://huggingface.co/docs/safetensors
//
// Never reads pickles: arrays of objects are refused. Does not own: the sizes and numbers that a
// field takes (field_reader.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/field_reader.h"

namespace sluice::data {

inline constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 30;

// The file that the text of a field names: "images/7.npy", "images.safetensors", or a tensor in it,
// "images.safetensors:7".
struct ArrayName {
  std::string file;
  std::string tensor = {};  // "": the tensor with the name of the field
};
// The folder that such a name is relative to: that of the .jsonl file.
std::string folder_of_rows(const std::string& jsonl);
// True if the text names one.
bool names_array(std::string_view text);
// Precondition: names_array().
ArrayName array_name(std::string_view text);

// Gives `field`, whose name is `name`, the array in the file, as if the row had it as nested lists.
// Throws Error(kInput) for a file that is missing, malformed or of another length than its header
// says, for an array that is missing or larger than kMaxArrayBytes, and for one that the field does
// not take.
void read_array(const std::string& folder, std::string_view text, const std::string& name,
                FieldReader& field);

// The files that these fields name in the rows of a .jsonl file, in their order, each once, with
// the folder of the file. Throws Error(kInput) at the first row that names a file which cannot be
// opened.
std::vector<std::string> array_files_of(const std::string& jsonl,
                                        const std::vector<FieldOption>& fields);

}  // namespace sluice::data
