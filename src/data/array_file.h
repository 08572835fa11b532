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

// A parsed name: "images/7.npy", "images.safetensors", or "images.safetensors:7" for tensor "7".
struct ArrayName {
  std::string file;
  std::string tensor = {};  // default: the field's name
};
// Array file names are relative to this directory.
std::string folder_of_rows(const std::string& jsonl);
bool names_array(std::string_view text);
ArrayName array_name(std::string_view text);

// Passes the array to `field`, whose name is `name`, like nested lists. Throws Error(kInput) for a
// bad or missing file or array, and if the field rejects it.
void read_array(const std::string& folder, std::string_view text, const std::string& name,
                FieldReader& field);

// Returns each array file that these fields name once, in order. Throws Error(kInput) if a file
// cannot be opened.
std::vector<std::string> array_files_of(const std::string& jsonl,
                                        const std::vector<FieldOption>& fields);

}  // namespace sluice::data
