#include "sluice/parts/hf_directory.h"

#include "base/nearest_name.h"
#include "io/hf_shards.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/format.h"
#include "base/strict_json.h"
#include "io/safetensors.h"
#include "kind/hf_names.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kIndexRemedy =
    "copy or download the index and its shards, as \"model-00001-of-00002.safetensors\", again";
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;

bool ends_with_pickle(const std::string& name) {
  static constexpr std::array<std::string_view, 4> kEndings = {".bin", ".pt", ".pth", ".ckpt"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view e) { return name.ends_with(e); });
}

std::string conversion_advice(const std::string& path) {
  return "pickles can run code and are never opened; convert once: python -c \"from transformers "
         "import "
         "AutoModelForCausalLM as M; M.from_pretrained('" +
         path + "').save_pretrained('NEW_DIRECTORY')\"";
}

// Returns for example "model.layers.12" for "model.layers.12.mlp.up_proj.weight".
std::string layer_of(std::string_view name) {
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos)
      return std::string(name.substr(0, end));
    begin = end + 1;
  }
  return {};
}

// Limits the search for the nearest name, so that rejecting a million tensors takes no longer than
// reading their header.
constexpr std::size_t kMostCandidates = 100'000;

[[noreturn]] void refuse_without_safetensors(const std::string& path) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  const auto pickle = std::find_if(names.begin(), names.end(), ends_with_pickle);
  if (pickle != names.end()) {
    throw Error(ErrorKind::kInput,
                {.what = "the weights are pickles ('" + *pickle + "'), not safetensors",
                 .where = path,
                 .remedy = conversion_advice(path)});
  }
  const auto other = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name.ends_with(".safetensors");
  });
  throw Error(
      ErrorKind::kInput,
      {.what = std::string("the directory has neither ") + kSingleFile + " nor " + kIndexFile,
       .where = path,
       .remedy = other == names.end() ? "set `path` to a Hugging Face directory with weights"
                                      : "'" + *other + "' exists, but shards need their index"});
}

// Throws if the file is a broken link, as in a Hugging Face cache without its blobs folder.
void refuse_broken_link(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  std::error_code ignored;
  if (!fs::is_symlink(fs::symlink_status(path, ignored)) || fs::exists(path, ignored)) return;
  const std::string target = fs::read_symlink(path, ignored).string();
  throw Error(ErrorKind::kInput,
              {.what = formatted("'{}' is a link to '{}', which is not there", name, target),
               .where = directory,
               .remedy = "copy or download the file itself"});
}

void check_shard_name(const std::string& shard, const std::string& directory,
                      const std::string& index) {
  const bool is_path = shard.empty() || shard.find('/') != std::string::npos ||
                       shard.find('\\') != std::string::npos ||
                       shard.find('\0') != std::string::npos;
  if (is_path)
    throw Error(ErrorKind::kInput, {.what = "shard name '" + shard + "' is not a plain file name",
                                    .where = index,
                                    .remedy = kIndexRemedy});
  if (ends_with_pickle(shard)) {
    throw Error(ErrorKind::kInput, {.what = "shard '" + shard + "' is a pickle",
                                    .where = index,
                                    .remedy = conversion_advice(directory)});
  }
  if (!shard.ends_with(".safetensors")) {
    throw Error(ErrorKind::kInput, {.what = "shard '" + shard + "' does not end in .safetensors",
                                    .where = index,
                                    .remedy = kIndexRemedy});
  }
}

using WeightMap = std::vector<std::pair<std::string, std::string>>;

WeightMap read_weight_map(const std::string& directory) {
  const std::string index = directory + "/" + kIndexFile;
  const Json json = parse_strict_json(read_text(index, kMaxIndexBytes), index);
  const Json& weight_map = json.at("weight_map");
  if (!weight_map.is_object() || weight_map.empty()) {
    throw Error(ErrorKind::kInput, {.what = "'weight_map' is not a map from tensors to shards",
                                    .where = index,
                                    .remedy = kIndexRemedy});
  }
  WeightMap map;
  for (const auto& [name, shard] : weight_map.members()) {
    if (!shard.is_string()) {
      throw Error(ErrorKind::kInput, {.what = "the shard of tensor '" + name + "' is not a string",
                                      .where = index,
                                      .remedy = kIndexRemedy});
    }
    map.emplace_back(name, shard.text());
    check_shard_name(map.back().second, directory, index);
  }
  return map;
}

}  // namespace

HfShards::HfShards(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  std::error_code error;
  if (!fs::is_directory(path_, error)) {
    throw Error(ErrorKind::kInput,
                {.what = error ? "cannot open directory: " + error.message() : "not a directory",
                 .where = path_,
                 .remedy = "set `path` to a Hugging Face directory"});
  }
  WeightMap map;
  refuse_broken_link(path_, kSingleFile);
  refuse_broken_link(path_, kIndexFile);
  if (fs::exists(path_ + "/" + kSingleFile, error)) {
    shards_.emplace_back(path_ + "/" + kSingleFile);
  } else if (fs::exists(path_ + "/" + kIndexFile, error)) {
    map = read_weight_map(path_);
    std::set<std::string> files;
    for (const auto& [name, shard] : map) files.insert(shard);
    for (const std::string& file : files) {
      refuse_broken_link(path_, file);
      if (!fs::exists(path_ + "/" + file, error)) {
        throw Error(ErrorKind::kInput,
                    {.what = "shard '" + file + "' of " + kIndexFile + " is missing",
                     .where = path_,
                     .remedy = "copy or download it again"});
      }
      shards_.emplace_back(path_ + "/" + file);
    }
  } else {
    refuse_without_safetensors(path_);
  }

  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    for (const SafetensorsEntry& entry : shards_[i].entries()) by_name_.emplace_back(entry.name, i);
  }
  std::sort(by_name_.begin(), by_name_.end());
  const auto twice =
      std::adjacent_find(by_name_.begin(), by_name_.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != by_name_.end()) {
    throw Error(
        ErrorKind::kInput,
        {.what = "tensor '" + twice->first + "' is in two shards",
         .where = shards_[twice->second].path() + " and " + shards_[(twice + 1)->second].path(),
         .remedy = "remove the shard that does not belong to the model"});
  }
  for (const auto& [name, file] : map) {
    const std::optional<TensorSource> source = find_stored(name);
    if (!source || source->file->path() != path_ + "/" + file) {
      throw Error(ErrorKind::kInput, {.what = "the index places tensor '" + name + "' in '" + file +
                                              "', which does not have it",
                                      .where = path_ + "/" + kIndexFile,
                                      .remedy = kIndexRemedy});
    }
  }
}

std::vector<std::string> HfShards::names() const {
  std::vector<std::string> names;
  names.reserve(by_name_.size());
  for (const auto& [name, shard] : by_name_) names.push_back(name);
  return names;
}

std::optional<TensorSource> HfShards::find_stored(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [](const auto& item, std::string_view wanted) { return item.first < wanted; });
  if (found == by_name_.end() || found->first != name) return std::nullopt;
  const SafetensorsReader& file = shards_[found->second];
  return TensorSource{&file, file.find(name)};
}

std::optional<TensorSource> HfShards::find(std::string_view name) const {
  if (const auto source = find_stored(name)) return source;
  for (const HfNames& family : hf_names()) {
    if (name.starts_with(family.base_prefix))
      return find_stored(name.substr(family.base_prefix.size()));
  }
  return std::nullopt;
}

bool HfShards::has_layer(const std::string& layer) const {
  const auto has_prefix = [&](const std::string& prefix) {
    const auto next = std::lower_bound(
        by_name_.begin(), by_name_.end(), prefix,
        [](const auto& item, const std::string& wanted) { return item.first < wanted; });
    return next != by_name_.end() && next->first.starts_with(prefix);
  };
  const std::string inside = layer + ".";
  return has_prefix(inside) || has_prefix(inside.substr(inside.find('.') + 1));
}

TensorSource HfShards::locate(std::string_view name, const std::vector<std::string>& others) const {
  if (const auto source = find(name)) return *source;
  std::string near;
  if (by_name_.size() <= kMostCandidates) {
    std::set<std::string_view> taken;
    for (const std::string& other : others) {
      if (const auto source = find(other)) taken.insert(source->entry->name);
    }
    std::vector<std::string> candidates = names();
    std::erase_if(candidates, [&](const std::string& stored) { return taken.contains(stored); });
    near = nearest_name(name, candidates);
  }
  std::string remedy =
      near.empty() ? "does config.json belong to these weights?" : "did you mean '" + near + "'?";
  const std::string layer = layer_of(name);
  if (!layer.empty() && !has_layer(layer)) {
    remedy = "config.json and the weights belong to different models: the weights have no '" +
             layer + "'; name a folder whose files belong together";
  }
  std::error_code ignored;
  if (fs::exists(path_ + "/" + kSingleFile, ignored) &&
      fs::exists(path_ + "/" + kIndexFile, ignored)) {
    remedy = formatted(
        "the folder has '{}', which is used, and '{}', which is ignored: remove the wrong one",
        kSingleFile, kIndexFile);
  }
  throw Error(ErrorKind::kInput, {.what = "no tensor '" + std::string(name) + "' among the weights",
                                  .where = path_,
                                  .remedy = remedy});
}

HfDirectory::HfDirectory(std::string path)
    : shards_(std::make_shared<const HfShards>(std::move(path))) {}
const std::string& HfDirectory::path() const { return shards_->path(); }
std::vector<std::string> HfDirectory::names() const { return shards_->names(); }

}  // namespace sluice
