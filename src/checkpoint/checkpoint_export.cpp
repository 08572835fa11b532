#include "checkpoint/checkpoint_export.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/content_hash.h"
#include "base/file.h"
#include "checkpoint/export_directory.h"
#include "checkpoint/verify_content.h"
#include "sluice/error.h"

namespace sluice {
namespace {

class Copy {
 public:
  Copy(const std::string& from, const std::string& to)
      : source_(File::open(from, ErrorKind::kCheckpoint, Links::kRefuse)),
        target_(File::create(to)),
        buffer_(kBufferBytes) {}

  std::uint64_t position() const { return position_; }

  // Copies bytes and compares their hash. hash: nullptr for bytes that are already checked.
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
        {.what = "the saved content has changed: its hash is " + content.digits() +
                 ", but the manifest records " + *hash,
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
  ExportDirectory directory(out);
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
    // An empty tensor may have another tensor's offset.
    const SavedTensor*& at = files[tensor.file][tensor.offset];
    if (!at || at->bytes < tensor.bytes) at = &tensor;
  }
  for (const auto& [name, tensors] : files) {
    Copy file = copy(name);
    // The header was checked when the checkpoint was opened.
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
