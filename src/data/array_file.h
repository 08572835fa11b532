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

// An array file as a row names it: "images/7.npy", "images.safetensors", or "images.safetensors:7"
// for tensor "7".
struct ArrayName {
  std::string file;
  std::string tensor = {};  // if empty, the tensor named like the field
};
// Returns the directory of the .jsonl file. Names of array files are relative to it.
std::string folder_of_rows(const std::string& jsonl);
bool names_array(std::string_view text);
ArrayName array_name(std::string_view text);

// Passes the numbers of array file `text` to `field` as nested lists. Throws Error(kInput) for a
// bad file or an unsuitable array.
void read_array(const std::string& folder, std::string_view text, const std::string& name,
                FieldReader& field);

// Returns each array file that the fields of all rows name, once, in row order. Throws
// Error(kInput) if a file cannot be opened.
std::vector<std::string> array_files_of(const std::string& jsonl,
                                        const std::vector<FieldOption>& fields);

}  // namespace sluice::data
