#include "checkpoint/checkpoint_files.h"

#include <string>
#include "checkpoint/kept_tensors.h"

#include "checkpoint/manifest.h"
#include "checkpoint/read_manifest.h"
#include "io/hf_files.h"
#include "kind/adapter_files.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"

namespace sluice {
namespace {

bool is_tensor_file_in(std::string_view file, const std::string& folder) {
  return file.starts_with(folder + "/") && file.ends_with(".safetensors");
}

bool is_ours(std::string_view file) {
  if (file.find('/') == std::string_view::npos) {
    return file == kManifestFile || file == io::kHfConfigFile || file == io::kHfIndexFile ||
           ((file.starts_with("model") || is_kept_file(std::string(file))) &&
            file.ends_with(".safetensors")) ||
           file == kAdapterConfigFile || file == kAdapterFile || io::is_tokenizer_file(file);
  }
  return is_tensor_file_in(file, kOptimizerFolder) || is_tensor_file_in(file, kExtraFolder);
}

bool is_committed(const std::string& path) {
  try {
    read_manifest(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

io::DirectoryKind checkpoint_kind() {
  return {.marker = kManifestFile, .is_ours = is_ours, .is_committed = is_committed};
}

}  // namespace sluice
