#include <algorithm>
#include <utility>

#include "base/format.h"
#include "data/token_file.h"
#include "data/token_stream.h"

namespace sluice::data {
namespace {

class TokenFileStream final : public TokenStream {
 public:
  explicit TokenFileStream(const SourceOptions& options)
      : paths_(options.files), vocab_size_(options.vocab_size) {
    for (const std::string& path : paths_) {
      files_.push_back(open_token_file(path, options.format));
      starts_.add(files_.back()->num_tokens());
      num_bytes_ += files_.back()->num_bytes();
    }
  }

  std::uint64_t num_tokens() const override { return starts_.total(); }
  std::uint64_t num_bytes() const override { return num_bytes_; }

  void read(std::uint64_t first, std::size_t count, std::int32_t* ids) const override {
    std::size_t file = starts_.holder(first);
    for (std::size_t done = 0; done < count; ++file) {
      const std::uint64_t from = first + done - starts_.first(file);
      const std::size_t here =
          std::min<std::uint64_t>(count - done, files_[file]->num_tokens() - from);
      if (here > 0) files_[file]->read(from, here, vocab_size_, ids + done);
      done += here;
    }
  }

  std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                             std::size_t count) const override {
    std::vector<std::uint64_t> starts;
    const std::uint64_t end = first + count;
    for (std::size_t file = starts_.holder(first);
         file < files_.size() && starts_.first(file) < end; ++file) {
      const std::uint64_t begin = starts_.first(file), from = std::max(first, begin);
      const std::uint64_t to = std::min(end, starts_.end(file));
      for (const std::uint64_t start : files_[file]->document_starts(from - begin, to - from))
        starts.push_back(begin + start);
    }
    return starts;
  }

  std::string place(std::uint64_t token) const override {
    const std::size_t file = starts_.holder(token);
    return formatted("{}, token {}", paths_[file], token - starts_.first(file));
  }

 private:
  std::vector<std::string> paths_;
  std::int64_t vocab_size_;
  std::vector<std::unique_ptr<TokenFile>> files_;
  Starts starts_;
  std::uint64_t num_bytes_ = 0;
};

}  // namespace

std::unique_ptr<TokenStream> open_token_files(const SourceOptions& options) {
  return std::make_unique<TokenFileStream>(options);
}

}  // namespace sluice::data
