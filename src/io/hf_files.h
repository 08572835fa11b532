#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::io {

inline constexpr const char* kHfIndexFile = "model.safetensors.index.json";
inline constexpr const char* kHfConfigFile = "config.json";

// Returns a file name as in transformers: "model.safetensors" or
// "model-00001-of-00002.safetensors". `number` starts at 0.
std::string shard_name(const std::string& stem, std::size_t number, std::size_t num_shards);
// Like shard_name(), but numbers a single file too.
std::string numbered_shard_name(const std::string& stem, std::size_t number,
                                std::size_t num_shards);

// weight_map: tensor name -> file name
std::string index_text(const std::map<std::string, std::string>& weight_map, std::uint64_t bytes);

// Returns config.json with the dtype (such as "float32") and architecture set.
std::string config_of_weights(const std::string& config_text, const std::string& dtype);

bool is_tokenizer_file(std::string_view name);
// Throws Error(kInput) for links as resolve_local_link().
std::vector<std::string> tokenizer_files(const std::string& directory);

// Follows a link in a model directory. Checkpoints publish copies, so the link must stay in the
// directory or its Hugging Face cache (models--ORG--NAME/snapshots/REVISION/FILE ->
// ../../blobs/HASH). Otherwise throws Error(kInput).
std::string resolve_local_link(const std::string& path);

struct CopiedFile {
  std::uint64_t bytes = 0;
  std::string hash;
};
// Copies and flushes a file. Throws Error(kCheckpoint), and Error(kInput) as resolve_local_link().
CopiedFile copy_file(const std::string& from, const std::string& to);

}  // namespace sluice::io
