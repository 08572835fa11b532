#include "base/hub_id.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/format.h"
#include "base/text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Local folder names, which own no models on the Hugging Face Hub.
constexpr std::array kFolders = {"models",     "model", "outputs", "output", "checkpoints",
                                 "checkpoint", "data",  "runs",    "tmp"};
constexpr std::array kFileEndings = {".json", ".pt2", ".pt", ".safetensors", ".toml", ".gguf"};

bool is_hub_word(std::string_view word) {
  return !word.empty() && word.size() <= 96 && word.front() != '.' && word.front() != '-' &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '-' || c == '_';
         });
}

}  // namespace

std::string download_advice(const std::string& path) {
  std::string_view rest = path;
  while (rest.ends_with('/')) rest.remove_suffix(1);
  std::error_code failed;
  const fs::path whole(rest);
  const std::string name = whole.filename().string(),
                    owner = whole.parent_path().filename().string();
  if (!is_hub_word(name) || !is_hub_word(owner) || name.starts_with("step-")) return {};
  if (fs::exists(whole.parent_path(), failed) || fs::exists(whole, failed)) return {};
  const auto is_ending = [&](const char* ending) { return to_lower(name).ends_with(ending); };
  if (std::find(kFolders.begin(), kFolders.end(), to_lower(owner)) != kFolders.end() ||
      std::any_of(kFileEndings.begin(), kFileEndings.end(), is_ending))
    return {};
  return formatted(
      "download the model of the Hub first: hf download {}/{} --local-dir models/{}, then give "
      "that folder",
      owner, name, name);
}

}  // namespace sluice
