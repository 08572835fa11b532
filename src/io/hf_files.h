// The files of a Hugging Face directory that are not tensors: names of shards, the index,
// config.json, the tokenizer's.
// Thread-safety: pure functions, but for reading files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::io {

inline constexpr const char* kHfIndexFile = "model.safetensors.index.json";
inline constexpr const char* kHfConfigFile = "config.json";

// The names that transformers gives: "model.safetensors", or "model-00001-of-00002.safetensors"
// (number: from 0). stem: "model".
std::string shard_name(const std::string& stem, std::size_t number, std::size_t num_shards);
// The same, but a file that is alone is numbered too.
std::string numbered_shard_name(const std::string& stem, std::size_t number,
                                std::size_t num_shards);

// weight_map: tensor -> shard. bytes: of all tensors.
std::string index_text(const std::map<std::string, std::string>& weight_map, std::uint64_t bytes);

// config_text for weights of this dtype ("float32"), and with the architecture of the language
// model that the tensors are, also when they were read from the bare one.
std::string config_of_weights(const std::string& config_text, const std::string& dtype);

// True for files of tokenizer, chat template and generation: carried along from where training
// started.
bool is_tokenizer_file(std::string_view name);
// Paths of such files in `directory`, which may be "". Throws Error(kInput) as own_file() does.
std::vector<std::string> tokenizer_files(const std::string& directory);

// Follows a link in a model directory. Checkpoints publish copies of such files, so a link must
// stay in the directory, or lead into its own Hugging Face cache
// (models--ORG--NAME/snapshots/REVISION/FILE -> ../../blobs/HASH). Throws Error(kInput) for any
// other link.
std::string own_file(const std::string& path);

struct CopiedFile {
  std::uint64_t bytes = 0;
  std::string hash;  // content_hash()
};
// Copies a file of a model directory and flushes it to disk. Throws Error(kCheckpoint), and as
// own_file().
CopiedFile copy_file(const std::string& from, const std::string& to);

}  // namespace sluice::io
