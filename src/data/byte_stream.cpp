#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.h"
#include "base/format.h"
#include "data/token_stream.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::uint64_t kEntropyBytes = std::uint64_t{1} << 30;

using Histogram = std::array<std::uint64_t, 256>;

void count_bytes(const std::vector<unsigned char>& block, std::size_t size, Histogram& histogram) {
  // Four tables, because in a run of equal bytes each increment of a single counter would wait for
  // the previous one.
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) ++tables[lane][block[i + lane]];
  }
  for (; i < size; ++i) ++tables[0][block[i]];
  for (const auto& table : tables) {
    for (std::size_t byte = 0; byte < 256; ++byte) histogram[byte] += table[byte];
  }
}

class ByteStream final : public TokenStream {
 public:
  explicit ByteStream(const SourceOptions& options) : files_(options.files) {
    for (const std::string& file : files_) starts_.add(File::open(file).size());
    try {
      options.tokens->require_fit();
      std::vector<std::int32_t> none;
      options.tokens->end_text(none, options.append_eos);
    } catch (const Error& error) {
      throw error.where().empty() ? error.at(files_.front()) : error;
    }
  }

  std::uint64_t num_tokens() const override { return starts_.total(); }
  std::uint64_t num_bytes() const override { return starts_.total(); }
  std::string unit() const override { return "bytes"; }

  void read(std::uint64_t first, std::size_t count, std::int32_t* ids) const override {
    std::vector<unsigned char> bytes(count);
    std::size_t file = starts_.holder(first);
    for (std::size_t done = 0; done < count; ++file) {
      const std::size_t here =
          std::min<std::uint64_t>(count - done, starts_.end(file) - (first + done));
      if (here == 0) continue;
      File::open(files_[file]).read(bytes.data() + done, here, first + done - starts_.first(file));
      done += here;
    }
    std::copy(bytes.begin(), bytes.end(), ids);
  }

  std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                             std::size_t count) const override {
    return starts_.starts_in(first, count);
  }

  std::string place(std::uint64_t token) const override {
    const std::size_t file = starts_.holder(token);
    return formatted("{}, byte {}", files_[file], token - starts_.first(file));
  }

  std::optional<double> unigram_entropy() const override {
    Histogram histogram{};
    std::vector<unsigned char> block(kBlockBytes);
    std::uint64_t total = 0;
    for (const std::string& path : files_) {
      const File file = File::open(path);
      std::uint64_t offset = 0;
      while (const std::size_t count = file.read_some(block.data(), block.size(), offset)) {
        count_bytes(block, count, histogram);
        offset += count;
        total += count;
        if (total >= kEntropyBytes) break;
      }
      if (total >= kEntropyBytes) break;
    }
    double entropy = 0.0;
    for (const std::uint64_t count : histogram) {
      const double share = static_cast<double>(count) / static_cast<double>(total);
      if (count > 0) entropy -= share * std::log(share);
    }
    return entropy;
  }

 private:
  std::vector<std::string> files_;
  Starts starts_;
};

}  // namespace

std::unique_ptr<TokenStream> open_bytes(const SourceOptions& options) {
  return std::make_unique<ByteStream>(options);
}

}  // namespace sluice::data
