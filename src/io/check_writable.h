// A look whether a directory of weights can be written, before anything is.
// Thread-safety: for one thread.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/error.h"
#include "sluice/model_spec.h"

namespace sluice {

// The most that such a directory takes on disk: the weights of `model` with their headers and
// index, config.json, the tokenizer files of source_directory ("" for none).
std::uint64_t hf_directory_bytes(const ModelSpec& model, const std::string& source_directory);

// Checks that `folder` exists and can be written to, or can be created, that its disk has `bytes`
// left and that this process may write files of largest_file bytes (ulimit -f), without leaving
// anything behind. Throws Error(kind) naming the folder and the ancestor that stands in the way.
void check_writable(const std::string& folder, ErrorKind kind = ErrorKind::kCheckpoint,
                    std::uint64_t bytes = 0, std::uint64_t largest_file = 1);

}  // namespace sluice
