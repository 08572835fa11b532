#include "sluice/parts/checkpoint_export.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <vector>

#include "base/content_hash.h"
#include "base/file.h"
#include "checkpoint/verify_content.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

void require_free(const std::string& out) {
  if (std::error_code unknown; fs::exists(parent_directory(out) + "/" + kManifestFile, unknown)) {
    throw Error(ErrorKind::kUsage, {.what = "it would be inside of a checkpoint",
                                    .where = out,
                                    .remedy = "name a folder outside of it"});
  }
  std::error_code error;
  const fs::file_status status = fs::symlink_status(out, error);
  if (status.type() == fs::file_type::not_found && !out.empty()) return;
  if (fs::is_directory(status) && fs::is_empty(out, error) && !error) return;
  throw Error(ErrorKind::kUsage,
              {.what = fs::is_directory(status) ? "the directory to export to is not empty"
                                                : "cannot export to what is no directory",
               .where = out.empty() ? "''" : out,
               .remedy = "name a directory that is not there yet"});
}

// Beside the directory that it becomes.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& out)
      : out_(out),
        path_(parent_directory(out) + "/." + base_name(out) + ".tmp-" + unique_suffix()) {
    if (::mkdir(path_.c_str(), 0777) != 0)
      throw file_error(ErrorKind::kCheckpoint, "cannot create directory", path_, errno);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!published_) fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  void publish() {
    sync_directory(path_);
    rename_path(path_, out_);  // over an empty one, too
    published_ = true;
    sync_directory(parent_directory(out_));
  }

 private:
  std::string out_, path_;
  bool published_ = false;
};

// One file on its way, from its first byte to its last.
class Copy {
 public:
  Copy(const std::string& from, const std::string& to)
      : source_(File::open(from, ErrorKind::kCheckpoint, Links::kRefuse)),
        target_(File::create(to)),
        buffer_(kBufferBytes) {}

  std::uint64_t position() const { return position_; }

  // The next bytes; hash: what they have to be, nullptr for what was compared before.
  void add(std::uint64_t bytes, const std::string* hash, const std::string& name) {
    ContentHash content;
    for (const std::uint64_t end = position_ + bytes; position_ < end;) {
      const std::size_t count = std::min<std::uint64_t>(buffer_.size(), end - position_);
      source_.read(buffer_.data(), count, position_);
      content.add(buffer_.data(), count);
      target_.write(buffer_.data(), count, position_);
      position_ += count;
    }
    if (!hash || content.digits() == *hash) return;
    throw Error(
        ErrorKind::kCheckpoint,
        {.what =
             "not what was saved: the hash is " + content.digits() + ", the manifest says " + *hash,
         .where = name.empty() ? source_.path() : source_.path() + ", tensor '" + name + "'",
         .remedy = "the file is damaged: export another checkpoint"});
  }

  void finish() {
    target_.sync();
    target_.close();
  }

 private:
  File source_, target_;
  std::vector<char> buffer_;
  std::uint64_t position_ = 0;
};

}  // namespace

ExportedDirectory export_checkpoint(const Checkpoint& checkpoint, const std::string& out) {
  std::string final_path = out;
  while (final_path.size() > 1 && final_path.ends_with('/')) final_path.pop_back();
  require_free(final_path);
  TemporaryDirectory directory(final_path);
  ExportedDirectory exported;
  const auto copy = [&](const std::string& file) {
    return Copy(checkpoint.path() + "/" + file, directory.path() + "/" + file);
  };
  const auto finish = [&](Copy& file) {
    file.finish();
    ++exported.num_files;
    exported.bytes += file.position();
  };

  std::map<std::string, std::map<std::uint64_t, const SavedTensor*>> files;
  for (const SavedTensor& tensor : checkpoint.manifest().weights) {
    // Those without elements share their place with another.
    const SavedTensor*& at = files[tensor.file][tensor.offset];
    if (!at || at->bytes < tensor.bytes) at = &tensor;
  }
  for (const auto& [name, tensors] : files) {
    Copy file = copy(name);
    // The header was compared with the manifest when the checkpoint was opened.
    file.add(tensors.begin()->first, nullptr, {});
    for (const auto& [offset, tensor] : tensors)
      file.add(tensor->bytes, &tensor->hash, tensor->name);
    finish(file);
  }
  for (const SavedFile& saved : checkpoint.manifest().files) {
    Copy file = copy(saved.file);
    file.add(saved.bytes, &saved.hash, {});
    finish(file);
    exported.has_config = exported.has_config || saved.file == "config.json";
  }
  directory.publish();
  return exported;
}

}  // namespace sluice
