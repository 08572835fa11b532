#include "checkpoint/publication.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/kept_tensors.h"
#include "checkpoint/manifest.h"
#include "checkpoint/read_manifest.h"
#include "engine/rank_errors.h"
#include "io/hf_files.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "kind/adapter_files.h"
#include "sluice/checkpoint.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

// Renames a damaged checkpoint in marker mode, which never replaces a committed one.
void move_damaged(const SaveTarget& target) {
  if (target.commit != Commit::kMarker || !was_committed(target.path)) return;
  try {
    Checkpoint(target.path).verify();
  } catch (const Error&) {
    io::rename_to_kept(target.path);
  }
}

const SaveTarget& with_damaged_moved_aside(const SaveTarget& target) {
  move_damaged(target);
  return target;
}

// Returns the floating-point dtype with the most bytes, because buffers may have others.
at::ScalarType dtype_of(const std::vector<SavedTensor>& weights) {
  std::map<at::ScalarType, std::uint64_t> bytes;
  for (const SavedTensor& tensor : weights) {
    if (is_kept_file(tensor.file)) continue;
    const auto dtype = io::torch_dtype(tensor.dtype);
    if (dtype && io::is_plain_float(*dtype)) bytes[*dtype] += tensor.bytes;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? at::kFloat : most->first;
}

bool is_in(const std::string& file, const std::string& folder) {
  return file.starts_with(folder + "/");
}

}  // namespace

Publication::Publication(SaveTarget target)
    : target_(std::move(target)),
      directory_(with_damaged_moved_aside(target_).path, target_.commit, checkpoint_kind()) {}

void Publication::add_file(const std::string& name, const std::string& text) {
  write_text(working() + "/" + name, text);
  target_.head.files.push_back({name, text.size(), content_hash(text)});
}

void Publication::add_index_and_config() {
  const Manifest& manifest = target_.head;
  if (!target_.adapter_config.empty()) {
    add_file(kAdapterConfigFile, target_.adapter_config);
    return;
  }
  std::map<std::string, std::string> weight_map;
  std::uint64_t bytes = 0;
  bool one_file = true;
  for (const SavedTensor& tensor : manifest.weights) {
    weight_map.emplace(tensor.name, tensor.file);
    bytes += tensor.bytes;
    one_file = one_file && tensor.file == manifest.weights.front().file;
  }
  if (!one_file) add_file(io::kHfIndexFile, io::index_text(weight_map, bytes));
  if (target_.config_text.empty()) return;
  add_file(io::kHfConfigFile,
           io::config_of_weights(target_.config_text, dtype_name(dtype_of(manifest.weights))));
}

void Publication::add_tokenizer() {
  for (const std::string& path : io::tokenizer_files(target_.source_directory)) {
    const std::string name = base_name(path);
    const io::CopiedFile copied = io::copy_file(path, working() + "/" + name);
    target_.head.files.push_back({name, copied.bytes, copied.hash});
  }
}

void Publication::commit(std::vector<SavedTensor> tensors) {
  Manifest& manifest = target_.head;
  manifest.version = SLUICE_VERSION;
  for (SavedTensor& tensor : tensors) {
    auto& list = is_in(tensor.file, kOptimizerFolder) ? manifest.optimizer
                 : is_in(tensor.file, kExtraFolder)   ? manifest.extra_tensors
                                                      : manifest.weights;
    list.push_back(std::move(tensor));
  }
  if (manifest.weights.empty())
    throw Error(ErrorKind::kInternal, {.what = "no rank has written weights", .where = working()});
  for (auto* list : {&manifest.weights, &manifest.optimizer, &manifest.extra_tensors}) {
    std::sort(list->begin(), list->end(),
              [](const SavedTensor& a, const SavedTensor& b) { return a.name < b.name; });
  }
  add_index_and_config();
  add_tokenizer();
  directory_.publish(to_json(manifest));
  if (!target_.after_commit) return;
  try {
    target_.after_commit();
  } catch (...) {  // the save itself succeeded
    log_warning(caught_error().what());
  }
}

}  // namespace sluice
