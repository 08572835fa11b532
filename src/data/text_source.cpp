#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.h"
#include "data/byte_tokens.h"
#include "data/sequence_source.h"

namespace sluice::data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::uint64_t kEntropyBytes = std::uint64_t{1} << 30;

using Histogram = std::array<std::uint64_t, 256>;

void count_bytes(const std::vector<unsigned char>& block, std::size_t size, Histogram& histogram) {
  // Four tables, since a run of equal bytes makes increments of one table wait for each other.
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

class TextSource final : public SequenceSource {
 public:
  explicit TextSource(SourceOptions options) : options_(std::move(options)) {
    starts_.reserve(options_.files.size() + 1);
    starts_.push_back(0);
    for (const std::string& file : options_.files)
      starts_.push_back(starts_.back() + File::open(file).size());
    require_byte_tokens(options_, options_.files.front());
    if (num_sequences() == 0) {
      throw Error(ErrorKind::kInput,
                  {.what = "the data has " + std::to_string(num_bytes()) +
                           " bytes, not one whole sequence of " + std::to_string(options_.seq_len),
                   .where = options_.files.front(),
                   .remedy = "add files to data.files or lower training.seq_len"});
    }
  }

  std::uint64_t num_sequences() const override {
    return num_bytes() / static_cast<std::uint64_t>(options_.seq_len);
  }
  std::uint64_t num_bytes() const override { return starts_.back(); }

  void read(std::uint64_t index, std::int32_t* ids, std::int32_t* labels) const override {
    const auto length = static_cast<std::size_t>(options_.seq_len);
    std::vector<unsigned char> bytes(length);
    std::uint64_t position = index * length;
    std::size_t file = file_of(position);
    for (std::size_t done = 0; done < length; ++file) {
      const std::size_t count =
          std::min<std::uint64_t>(length - done, starts_[file + 1] - position);
      if (count == 0) continue;
      File::open(options_.files[file]).read(bytes.data() + done, count, position - starts_[file]);
      done += count;
      position += count;
    }
    std::copy(bytes.begin(), bytes.end(), ids);
    std::copy(bytes.begin(), bytes.end(), labels);
  }

  // Every byte but the first.
  std::int64_t counted_labels(std::uint64_t /*index*/) const override {
    return options_.seq_len - 1;
  }

  std::string place(std::uint64_t index) const override {
    const std::uint64_t position = index * static_cast<std::uint64_t>(options_.seq_len);
    const std::size_t file = file_of(position);
    return options_.files[file] + ", byte " + std::to_string(position - starts_[file]);
  }
  // Every byte is counted but the first of its sequence.
  const std::vector<std::uint64_t>& uncounted() const override { return uncounted_; }
  std::string uncounted_file() const override { return {}; }

  std::optional<double> unigram_entropy() const override {
    Histogram histogram{};
    std::vector<unsigned char> block(kBlockBytes);
    std::uint64_t total = 0;
    for (const std::string& path : options_.files) {
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
  std::size_t file_of(std::uint64_t position) const {
    return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), position) -
                                    starts_.begin()) -
           1;
  }

  SourceOptions options_;
  std::vector<std::uint64_t> uncounted_;  // none
  std::vector<std::uint64_t> starts_;     // of every file in the row of bytes, and its end
};

}  // namespace

std::unique_ptr<SequenceSource> open_text(SourceOptions options) {
  return std::make_unique<TextSource>(std::move(options));
}

}  // namespace sluice::data
