#include "io/hf_files.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/strict_json.h"
#include "io/check_writable.h"
#include "kind/hf_names.h"
#include "sluice/error.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {
namespace io {
namespace {

constexpr std::array<std::string_view, 13> kTokenizerFiles = {"generation_config.json",
                                                              "tokenizer.json",
                                                              "tokenizer_config.json",
                                                              "special_tokens_map.json",
                                                              "added_tokens.json",
                                                              "vocab.json",
                                                              "merges.txt",
                                                              "tokenizer.model",
                                                              "chat_template.jinja",
                                                              "chat_template.json",
                                                              "preprocessor_config.json",
                                                              "processor_config.json",
                                                              "video_preprocessor_config.json"};

namespace fs = std::filesystem;

bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// Returns the blobs folder of the Hugging Face cache that contains `folder`, or "".
fs::path blobs_of(fs::path folder) {
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    const fs::path snapshots = folder.parent_path(), model = snapshots.parent_path();
    if (snapshots.filename() == "snapshots" && model.filename().string().starts_with("models--"))
      return model / "blobs";
  }
  return {};
}

std::string five_digits(std::size_t value) {
  std::string digits = std::to_string(value);
  return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
}

}  // namespace

std::string shard_name(const std::string& stem, std::size_t number, std::size_t num_shards) {
  return num_shards == 1 ? stem + ".safetensors" : numbered_shard_name(stem, number, num_shards);
}

std::string numbered_shard_name(const std::string& stem, std::size_t number,
                                std::size_t num_shards) {
  return stem + "-" + five_digits(number + 1) + "-of-" + five_digits(num_shards) + ".safetensors";
}

std::string index_text(const std::map<std::string, std::string>& weight_map, std::uint64_t bytes) {
  Json index;
  index["metadata"]["total_size"] = bytes;
  index["weight_map"] = weight_map;
  return index.dump(2) + "\n";
}

// Versions of transformers before 4.56 read "torch_dtype", later versions "dtype".
std::string config_of_weights(const std::string& config_text, const std::string& dtype) {
  Json config = parse_strict_json(config_text, kHfConfigFile, KeyOrder::kAsWritten);
  if (config.contains("torch_dtype")) config["torch_dtype"] = dtype;
  if (config.contains("dtype") || !config.contains("torch_dtype")) config["dtype"] = dtype;
  const Json& type = config.at("model_type");
  const HfNames* family = type.is_string() ? find_hf_names(type.text()) : nullptr;
  if (family) config["architectures"] = std::vector{std::string(family->architecture)};
  return config.dump(2) + "\n";
}

bool is_tokenizer_file(std::string_view name) {
  return std::find(kTokenizerFiles.begin(), kTokenizerFiles.end(), name) != kTokenizerFiles.end();
}

std::vector<std::string> tokenizer_files(const std::string& directory) {
  std::vector<std::string> found;
  for (const std::string_view name : kTokenizerFiles) {
    std::error_code ignored;
    const std::string path = directory + "/" + std::string(name);
    if (directory.empty() || !fs::is_regular_file(path, ignored)) continue;
    resolve_local_link(path);
    found.push_back(path);
  }
  return found;
}

std::string resolve_local_link(const std::string& path) {
  std::error_code failed;
  const fs::path target = fs::canonical(path, failed);
  if (failed) return path;  // the file's reader reports the error
  const fs::path folder = fs::canonical(parent_directory(path), failed);
  if (failed) return path;
  const fs::path blobs = blobs_of(folder);
  if (lies_in(target, folder) || (!blobs.empty() && lies_in(target, blobs))) return target.string();
  throw Error(
      ErrorKind::kInput,
      {.what = "the file is a symbolic link to '" + target.string() +
               "', outside of the model's directory, so every checkpoint would hold a copy",
       .where = path,
       .remedy = "replace the link with the file, remove it, or name the directory of the file"});
}

CopiedFile copy_file(const std::string& from, const std::string& to) {
  const File source = File::open(resolve_local_link(from), ErrorKind::kCheckpoint, Links::kRefuse,
                                 LfsPointers::kTake);
  File target = File::create(to);
  std::vector<char> buffer(std::size_t{1} << 20);
  std::uint64_t done = 0;
  ContentHash hash;
  while (const std::size_t count = source.read_some(buffer.data(), buffer.size(), done)) {
    target.write(buffer.data(), count, done);
    hash.add(buffer.data(), count);
    done += count;
  }
  target.sync();
  target.close();
  return {done, hash.digits()};
}

}  // namespace io

std::uint64_t hf_directory_bytes(const ModelSpec& model, const std::string& source_directory) {
  constexpr std::uint64_t kEntryBytes = 256;                 // per tensor, without its name
  constexpr std::uint64_t kMargin = std::uint64_t{1} << 20;  // for partly filled disk blocks
  std::uint64_t bytes = kMargin + 2 * model.config_text.size();
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      bytes += kEntryBytes + 2 * parameter.name.size();
      if (parameter.tied_to.empty())
        bytes += static_cast<std::uint64_t>(dtype_bytes(parameter.dtype) * parameter.numel());
    }
  }
  for (const std::string& file : io::tokenizer_files(source_directory))
    bytes += File::open(file, ErrorKind::kCheckpoint, Links::kFollow, LfsPointers::kTake).size();
  if (!source_directory.empty()) io::resolve_local_link(source_directory + "/" + io::kHfConfigFile);
  return bytes;
}

}  // namespace sluice
