#include "sluice/parts/hf_directory.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/step_directory.h"
#include "plan/families/families.h"

namespace sluice {
namespace {

// Carried along from the directory that training started from.
constexpr std::array<const char*, 10> kTokenizerFiles = {"generation_config.json",
                                                         "tokenizer.json",
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "added_tokens.json",
                                                         "vocab.json",
                                                         "merges.txt",
                                                         "tokenizer.model",
                                                         "chat_template.jinja",
                                                         "chat_template.json"};

bool is_ours(const std::string& name) {
  return name == "config.json" || name == "model.safetensors.index.json" ||
         (name.starts_with("model") && name.ends_with(".safetensors")) ||
         std::find(kTokenizerFiles.begin(), kTokenizerFiles.end(), name) != kTokenizerFiles.end();
}

// The weights are of this type whatever they were loaded from. Versions of transformers before 4.56
// read "torch_dtype", later ones "dtype".
std::string updated_config(const std::string& config_text, const std::string& dtype) {
  auto config = nlohmann::ordered_json::parse(config_text);
  if (config.contains("torch_dtype")) config["torch_dtype"] = dtype;
  if (config.contains("dtype") || !config.contains("torch_dtype")) config["dtype"] = dtype;
  // The tensors are those of the language model, also when they were read from the bare one.
  const detail::Family* family = detail::find_family(config.value("model_type", ""));
  if (family) config["architectures"] = {family->architecture};
  return config.dump(2) + "\n";
}

void copy_file(const std::string& from, const std::string& to) {
  const File source = File::open(from, ErrorKind::kCheckpoint);
  File target = File::create(to);
  std::vector<char> buffer(std::size_t{1} << 20);
  std::uint64_t done = 0;
  while (const std::size_t count = source.read_some(buffer.data(), buffer.size(), done)) {
    target.write(buffer.data(), count, done);
    done += count;
  }
  target.sync();
  target.close();
}

// Those that `directory` ("" for none) has.
std::vector<std::string> tokenizer_files(const std::string& directory) {
  std::vector<std::string> found;
  for (const char* name : kTokenizerFiles) {
    std::error_code ignored;
    const std::string path = directory + "/" + name;
    if (!directory.empty() && std::filesystem::is_regular_file(path, ignored))
      found.push_back(path);
  }
  return found;
}

std::string five_digits(std::size_t value) {
  std::string digits = std::to_string(value);
  return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
}

// Gives the shards the names that transformers writes; the index, unless there is a single file.
void name_shards(const std::string& directory, const std::vector<HfShard>& shards) {
  std::map<std::string, std::string> weight_map;
  std::uint64_t total_bytes = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1 ? std::string("model.safetensors")
                                                : "model-" + five_digits(i + 1) + "-of-" +
                                                      five_digits(shards.size()) + ".safetensors";
    rename_path(directory + "/" + shards[i].file, directory + "/" + name);
    total_bytes += shards[i].bytes;
    for (const std::string& tensor : shards[i].tensors) {
      if (!weight_map.emplace(tensor, name).second) {
        throw Error(
            ErrorKind::kInternal,
            {.what = "tensor '" + tensor + "' was written by two ranks", .where = directory});
      }
    }
  }
  if (shards.size() == 1) return;
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = total_bytes;
  index["weight_map"] = weight_map;
  write_text(directory + "/model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace

struct HfWriter::Impl {
  io::StepDirectory directory;
};

HfWriter::HfWriter(std::string folder, std::int64_t step)
    : impl_(new Impl{io::StepDirectory(std::move(folder), step, is_ours)}) {}
HfWriter::~HfWriter() = default;

const std::string& HfWriter::directory() const { return impl_->directory.temporary(); }

std::string HfWriter::publish(const std::vector<HfShard>& shards, const std::string& config_text,
                              const std::string& source_directory) {
  if (shards.empty())
    throw Error(ErrorKind::kInternal,
                {.what = "no rank has written weights", .where = directory()});
  name_shards(directory(), shards);
  write_text(directory() + "/config.json", updated_config(config_text, shards.front().dtype));
  for (const std::string& file : tokenizer_files(source_directory))
    copy_file(file, directory() + "/" + base_name(file));
  impl_->directory.publish();
  return impl_->directory.final_path();
}

std::uint64_t hf_directory_bytes(const ModelSpec& model, const std::string& source_directory) {
  constexpr std::uint64_t kEntryBytes = 256;  // of a tensor in header and index, but for its name
  constexpr std::uint64_t kMargin = std::uint64_t{1} << 20;  // blocks that are not full, directory
  std::uint64_t bytes = kMargin + 2 * model.config_text.size();
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      bytes += kEntryBytes + 2 * parameter.name.size();
      if (parameter.tied_to.empty())
        bytes += static_cast<std::uint64_t>(dtype_bytes(parameter.dtype) * parameter.numel());
    }
  }
  for (const std::string& file : tokenizer_files(source_directory))
    bytes += File::open(file, ErrorKind::kCheckpoint).size();
  return bytes;
}

}  // namespace sluice
