// Reads arrays from .npy and safetensors files as fields of .jsonl rows. Rejects pickled objects.
// Formats: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html and
// https://huggingface.co/docs/safetensors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/field_reader.h"

namespace sluice::data {

inline constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 30;

// The text of a row's field that names an array file: "images/7.npy", "images.safetensors", or
// "images.safetensors:7" for tensor "7" of that file.
struct ArrayName {
  std::string file;
  std::string tensor = {};  // tensor in a safetensors file; by default named like the field
};
// Returns the directory of the .jsonl file, to which names of array files are relative.
std::string folder_of_rows(const std::string& jsonl);
bool names_array(std::string_view text);
ArrayName array_name(std::string_view text);

// Reads the array file `text` and passes its numbers to `field`, as if the row contained them as
// nested lists. `name` is the field's name. Throws Error(kInput) for a bad or missing file or
// array, and if the array does not fit the field.
void read_array(const std::string& folder, std::string_view text, const std::string& name,
                FieldReader& field);

// Returns the array files that the given fields of all rows name, each file once, in row order.
// Throws Error(kInput) if a file cannot be opened.
std::vector<std::string> array_files_of(const std::string& jsonl,
                                        const std::vector<FieldOption>& fields);

}  // namespace sluice::data
