#include "checkpoint/verify_content.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/format.h"

namespace sluice {
namespace {

// Bytes to check. If `tensor` is null, they are a whole file.
struct Piece {
  const std::string* file;
  const std::string* tensor;
  std::uint64_t offset, bytes;
  const std::string* hash;
};

class Verification {
 public:
  Verification(const std::string& path, const Manifest& manifest) : path_(path) {
    for (const auto* list : {&manifest.weights, &manifest.optimizer, &manifest.extra_tensors}) {
      for (const SavedTensor& tensor : *list) {
        pieces_.push_back({&tensor.file, &tensor.name, tensor.offset, tensor.bytes, &tensor.hash});
        std::uint64_t& size = file_bytes_[tensor.file];
        size = std::max(size, tensor.offset + tensor.bytes);
      }
    }
    for (const SavedFile& file : manifest.files) {
      pieces_.push_back({&file.file, nullptr, 0, file.bytes, &file.hash});
      file_bytes_[file.file] = file.bytes;
    }
  }

  std::size_t num_pieces() const { return pieces_.size(); }

  void work(std::vector<char>& buffer) {
    std::optional<File> file;
    for (;;) {
      const std::size_t index = next_.fetch_add(1);
      if (index >= pieces_.size() || failed_) return;
      try {
        check(pieces_[index], file, buffer);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failed_ = true;
        if (!failure_ || index < failed_index_) failure_ = std::current_exception();
        failed_index_ = std::min(failed_index_, index);
      }
    }
  }

  void finish() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void check(const Piece& piece, std::optional<File>& file, std::vector<char>& buffer) const {
    const std::string path = path_ + "/" + *piece.file;
    if (!file || file->path() != path) {
      file.emplace(File::open(path, ErrorKind::kCheckpoint, Links::kRefuse));
      require_size(*file, file_bytes_.at(*piece.file));
    }
    ContentHash hash;
    for (std::uint64_t done = 0; done < piece.bytes;) {
      const std::size_t count = std::min<std::uint64_t>(buffer.size(), piece.bytes - done);
      file->read(buffer.data(), count, piece.offset + done);
      hash.add(buffer.data(), count);
      done += count;
    }
    if (const std::string digits = hash.digits(); digits != *piece.hash) {
      throw Error(ErrorKind::kCheckpoint,
                  {.what = "the saved content has changed: its hash is " + digits +
                           ", but the manifest records " + *piece.hash,
                   .where = piece.tensor ? path + ", tensor '" + *piece.tensor + "'" : path,
                   .remedy = "the file is damaged: resume from another checkpoint"});
    }
  }

  static void require_size(const File& file, std::uint64_t expected) {
    if (const std::uint64_t size = file.size(); size != expected) {
      throw Error(
          ErrorKind::kCheckpoint,
          {.what = formatted("the file has {} bytes, but the manifest records {}", size, expected),
           .where = file.path(),
           .remedy = "it is damaged: resume from another "
                     "checkpoint"});
    }
  }

  const std::string& path_;
  std::vector<Piece> pieces_;
  std::map<std::string, std::uint64_t> file_bytes_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::size_t failed_index_ = static_cast<std::size_t>(-1);
};

}  // namespace

void verify_content(const std::string& path, const Manifest& manifest, int num_threads) {
  Verification verification(path, manifest);
  const int useful = static_cast<int>(std::min<std::size_t>(verification.num_pieces(), 256));
  const int count = std::clamp(num_threads, 1, std::max(useful, 1));
  std::vector<std::vector<char>> buffers(static_cast<std::size_t>(count),
                                         std::vector<char>(kBufferBytes));
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < buffers.size(); ++i)
      others.emplace_back([&, i] { verification.work(buffers[i]); });
    verification.work(buffers.front());
  }
  verification.finish();
}

}  // namespace sluice
