#pragma once

#include <cstdint>
#include <string>

#include "sluice/error.h"
#include "sluice/model_spec.h"

namespace sluice {

// Returns an upper bound of the bytes on disk for the model's weights and the tokenizer files of
// source_directory.
std::uint64_t hf_directory_bytes(const ModelSpec& model, const std::string& source_directory);

// Throws Error(kind) unless `folder` can be written or created, its disk has `bytes` left, and
// files of largest_file bytes are allowed (ulimit -f).
void check_writable(const std::string& folder, ErrorKind kind = ErrorKind::kCheckpoint,
                    std::uint64_t bytes = 0, std::uint64_t largest_file = 1);

}  // namespace sluice
