// The files of a Hugging Face directory that have no tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::io {

inline constexpr const char* kHfIndexFile = "model.safetensors.index.json";
inline constexpr const char* kHfConfigFile = "config.json";

// "model.safetensors" or "model-00001-of-00002.safetensors", as in transformers. `number` starts at
// 0.
std::string shard_name(const std::string& stem, std::size_t number, std::size_t num_shards);
// A single file is numbered too.
std::string numbered_shard_name(const std::string& stem, std::size_t number,
                                std::size_t num_shards);

// weight_map: tensor -> shard. `bytes` is the size of all tensors.
std::string index_text(const std::map<std::string, std::string>& weight_map, std::uint64_t bytes);

// Sets the weights' dtype ("float32") and the language model's architecture.
std::string config_of_weights(const std::string& config_text, const std::string& dtype);

// Files of tokenizer, chat template and generation are copied to checkpoints.
bool is_tokenizer_file(std::string_view name);
// `directory` may be "". Throws as own_file().
std::vector<std::string> tokenizer_files(const std::string& directory);

// Follows a link in a model directory. Checkpoints publish copies of such files. A link must
// therefore stay in the directory, or lead into its own Hugging Face cache
// (models--ORG--NAME/snapshots/REVISION/FILE -> ../../blobs/HASH). Throws Error(kInput) for other
// links.
std::string own_file(const std::string& path);

struct CopiedFile {
  std::uint64_t bytes = 0;
  std::string hash;
};
// Flushes the copy. Throws Error(kCheckpoint), and as own_file().
CopiedFile copy_file(const std::string& from, const std::string& to);

}  // namespace sluice::io
