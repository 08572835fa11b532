// Shared by the fuzz target and ManifestTest.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/safetensors_header.h"
#include "checkpoint/manifest.h"
#include "checkpoint/manifest_seal.h"
#include "fuzz/require.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"

namespace sluice::test {

inline void check_tensors(const std::vector<SavedTensor>& tensors, const std::string& folder) {
  std::set<std::string> names;
  for (const SavedTensor& tensor : tensors) {
    require(names.insert(tensor.name).second);
    require(tensor.file.starts_with(folder));
    const std::string name = tensor.file.substr(folder.size());
    require(name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos);
    require(name.front() != '.' && name.ends_with(".safetensors"));
    require(tensor.offset + tensor.bytes >= tensor.offset && tensor.hash.size() == 32);
    auto bits = static_cast<std::uint64_t>(safetensors_dtype_bits(tensor.dtype));
    require(bits != 0);
    for (const std::int64_t size : tensor.shape) {
      require(size >= 0);
      const auto factor = static_cast<std::uint64_t>(size);
      require(!__builtin_mul_overflow(bits, factor, &bits));
    }
    require(bits % 8 == 0 && tensor.bytes == bits / 8);
  }
}

// `text` is the part before the seal. Returns whether the sealed text was accepted.
inline bool check_manifest(std::string_view text) {
  try {
    parse_manifest(text, "manifest.json");
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kCheckpoint);
  }
  Manifest manifest;
  try {
    manifest = parse_manifest(seal(std::string(text)), "manifest.json");
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kCheckpoint);
    require(error.where().starts_with("manifest.json"));
    return false;
  }
  check_tensors(manifest.weights, "");
  check_tensors(manifest.optimizer, "optimizer/");
  check_tensors(manifest.extra_tensors, "extra/");
  for (const SavedFile& file : manifest.files)
    require(file.file.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos);
  require(manifest.step >= 0 && manifest.sequence >= 0);
  require(parse_manifest(to_json(manifest), "manifest.json") == manifest);
  return true;
}

}  // namespace sluice::test
