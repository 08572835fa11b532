#include "sluice/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>

#include "base/file.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "checkpoint/checkpoint_error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/read_manifest.h"
#include "checkpoint/tensor_files.h"
#include "checkpoint/verify_content.h"
#include "io/safetensors.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "it is damaged: resume from another checkpoint";

[[noreturn]] void refuse(const std::string& what, const std::string& where) {
  throw Error(ErrorKind::kCheckpoint, {.what = what, .where = where, .remedy = kRemedy});
}

const char* kind_name(SavedKind kind) {
  constexpr std::array kNames = {"weights", "optimizer state", "extra tensors"};
  return kNames[static_cast<std::size_t>(kind)];
}

const std::vector<SavedTensor>& tensors_of(const Manifest& manifest, SavedKind kind) {
  const std::array lists = {&manifest.weights, &manifest.optimizer, &manifest.extra_tensors};
  return *lists[static_cast<std::size_t>(kind)];
}

// Throws unless the path is a folder. A link to a folder is rejected.
void require_own_folder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (fs::is_directory(status)) return;
  refuse(fs::is_symlink(status) ? "a symbolic link, not a folder" : "there is no such folder",
         path);
}

std::string form(const std::string& dtype, const std::vector<std::int64_t>& shape,
                 std::uint64_t offset) {
  return formatted("{} {} at byte {}", dtype, shape_text(shape), offset);
}

std::string place(const SafetensorsReader& file, const std::string& name) {
  return file.path() + ", tensor '" + name + "'";
}

// No hash covers a file's header, so the header must be exactly as sluice writes it.
void require_plain_header(const SafetensorsReader& file) {
  static const std::map<std::string, std::string> kUsual = {{"format", "pt"}};
  const std::string found = file.header_bytes();
  const bool same = found.compare(8, std::string::npos, to_json(file.header())) == 0 &&
                    (file.metadata().empty() || file.metadata() == kUsual);
  if (!same) refuse("the header is not as sluice wrote it", file.path());
}

void require_same(const SafetensorsReader& file, const std::vector<const SavedTensor*>& expected) {
  for (const SavedTensor* tensor : expected) {
    const SafetensorsEntry* entry = file.find(tensor->name);
    const std::string where = place(file, tensor->name);
    if (!entry) refuse("the file does not have the tensor", where);
    const std::string said = form(tensor->dtype, tensor->shape, tensor->offset);
    const std::string found = form(entry->dtype, entry->shape, file.data_start() + entry->begin);
    if (said != found)
      refuse(formatted("the manifest records {}, but the file has {}", said, found), where);
  }
  if (file.entries().size() == expected.size()) return;
  for (const SafetensorsEntry& entry : file.entries()) {
    const bool known = std::any_of(expected.begin(), expected.end(),
                                   [&](const SavedTensor* t) { return t->name == entry.name; });
    if (!known) refuse("the manifest does not have the tensor", place(file, entry.name));
  }
}

using TensorsByName = std::vector<std::uint32_t>;

TensorsByName sorted_by_name(const std::vector<SavedTensor>& tensors) {
  TensorsByName by_name(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  std::sort(by_name.begin(), by_name.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  return by_name;
}

}  // namespace

struct Checkpoint::Impl {
  explicit Impl(std::string checkpoint_path)
      : path(std::move(checkpoint_path)), manifest(read_manifest(path)) {
    for (std::size_t kind = 0; kind < by_name.size(); ++kind)
      by_name[kind] = sorted_by_name(tensors_of(manifest, static_cast<SavedKind>(kind)));
    open_tensors(manifest.weights);
    if (!manifest.optimizer.empty()) require_own_folder(path + "/" + kOptimizerFolder);
    open_tensors(manifest.optimizer);
    if (!manifest.extra_tensors.empty()) require_own_folder(path + "/" + kExtraFolder);
    open_tensors(manifest.extra_tensors);
    for (const SavedFile& saved : manifest.files) {
      const File file = File::open(path + "/" + saved.file, ErrorKind::kCheckpoint, Links::kRefuse);
      if (const std::uint64_t size = file.size(); size != saved.bytes) {
        refuse(formatted("the file has {} bytes, but the manifest records {}", size, saved.bytes),
               file.path());
      }
    }
  }

  void open_tensors(const std::vector<SavedTensor>& tensors) {
    std::map<std::string, std::vector<const SavedTensor*>> by_file;
    for (const SavedTensor& tensor : tensors) by_file[tensor.file].push_back(&tensor);
    for (const auto& [name, expected] : by_file) {
      as_checkpoint_error([&, &name = name, &expected = expected] {
        SafetensorsReader file(path + "/" + name, Links::kRefuse);
        require_same(file, expected);
        require_plain_header(file);
        files.emplace(name, std::move(file));
      });
    }
  }

  const SavedTensor* find(SavedKind kind, std::string_view name) const {
    const std::vector<SavedTensor>& tensors = tensors_of(manifest, kind);
    const TensorsByName& index = by_name[static_cast<std::size_t>(kind)];
    const auto found = std::lower_bound(
        index.begin(), index.end(), name,
        [&](std::uint32_t i, std::string_view wanted) { return tensors[i].name < wanted; });
    return found == index.end() || tensors[*found].name != name ? nullptr : &tensors[*found];
  }

  const SafetensorsReader& file_of(SavedKind kind, std::string_view name) const {
    if (const SavedTensor* tensor = find(kind, name)) return files.at(tensor->file);
    std::vector<std::string> names;
    for (const SavedTensor& tensor : tensors_of(manifest, kind)) names.push_back(tensor.name);
    const std::string near = nearest_name(name, names);
    throw Error(ErrorKind::kCheckpoint,
                {.what = "no tensor '" + std::string(name) + "' among the " + kind_name(kind),
                 .where = path,
                 .remedy = near.empty() ? "is it a checkpoint of this model?"
                                        : "did you mean '" + near + "'?"});
  }

  std::string path;
  Manifest manifest;
  std::map<std::string, SafetensorsReader> files;
  std::array<TensorsByName, 3> by_name;
};

namespace {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

Checkpoint::Checkpoint(std::string path)
    : impl_(std::make_unique<Impl>(without_slashes(std::move(path)))) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

const std::string& Checkpoint::path() const { return impl_->path; }
const Manifest& Checkpoint::manifest() const { return impl_->manifest; }

void Checkpoint::verify(int num_threads) const {
  verify_content(impl_->path, impl_->manifest, num_threads);
}

const SavedTensor* Checkpoint::find(SavedKind kind, std::string_view name) const {
  return impl_->find(kind, name);
}

void Checkpoint::read_into(SavedKind kind, std::string_view name, const Slice& slice,
                           at::Tensor& destination) const {
  as_checkpoint_error([&] { impl_->file_of(kind, name).read_into(name, slice, destination); });
}

at::Tensor Checkpoint::read(SavedKind kind, std::string_view name) const {
  const SafetensorsReader& file = impl_->file_of(kind, name);
  at::Tensor tensor = as_checkpoint_error([&] { return file.read(name); });
  if (tensor_hash(tensor) == impl_->find(kind, name)->hash) return tensor;
  refuse("the content of '" + std::string(name) + "' is not what was saved", file.path());
}

void Checkpoint::close() { impl_->files.clear(); }

}  // namespace sluice
