// Reads Megatron-LM's indexed data sets. The .idx holds:
//   - the nine bytes "MMIDIDX\0\0", a uint64 version (1) and a byte for the id type
//   - uint64 numbers of sequences and of document entries
//   - the int32 length of every sequence
//   - the int64 byte offset of every sequence in the .bin
//   - the int64 first sequence of every document, then the number of sequences
//   - optionally a mode byte for every sequence
// Megatron leaves no gaps between sequences, so the .bin is one stream of tokens. Rejects files
// with gaps.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "data/token_file.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr char kMagic[] = "MMIDIDX\0";  // nine bytes with the string's final NUL
constexpr std::size_t kMagicBytes = 9;
constexpr std::uint64_t kHeaderBytes = kMagicBytes + 8 + 1 + 8 + 8;
constexpr std::size_t kBlock = std::size_t{1} << 16;
static_assert(sizeof(kMagic) == kMagicBytes);

std::optional<IdType> type_of(std::uint8_t code) {
  switch (code) {
    case 1:
      return IdType::kUint8;
    case 2:
      return IdType::kInt8;
    case 3:
      return IdType::kInt16;
    case 4:
      return IdType::kInt32;
    case 5:
      return IdType::kInt64;
    case 8:
      return IdType::kUint16;
    default:
      return std::nullopt;
  }
}

template <typename Number>
Number number_at(const File& file, std::uint64_t offset) {
  Number number;
  file.read(&number, sizeof(number), offset);
  return number;
}

[[noreturn]] void refuse(const std::string& what, const std::string& path,
                         const std::string& remedy = "make the data set again") {
  throw Error(ErrorKind::kInput, {.what = what, .where = path, .remedy = remedy});
}

template <typename Number>
class NumberReader {
 public:
  NumberReader(const File& file, std::uint64_t offset, std::uint64_t count)
      : file_(file), offset_(offset), left_(count) {}
  Number next() {
    if (at_ == block_.size()) {
      block_.resize(std::min<std::uint64_t>(kBlock, left_));
      file_.read(block_.data(), block_.size() * sizeof(Number), offset_);
      offset_ += block_.size() * sizeof(Number);
      left_ -= block_.size();
      at_ = 0;
    }
    return block_[at_++];
  }

 private:
  const File& file_;
  std::uint64_t offset_, left_;
  std::vector<Number> block_;
  std::size_t at_ = 0;
};

class MegatronFile final : public TokenFile {
 public:
  explicit MegatronFile(const std::string& path) : path_(path), index_path_(index_of_bin(path)) {
    const File index = File::open(index_path_);
    read_header(index);
    file_bytes_ = File::open(path_).size();
    num_tokens_ = check_sequences(index);
    check_documents(index);
    num_bytes_ = file_bytes_ + index.size();
  }

  std::uint64_t num_tokens() const override { return num_tokens_; }
  std::uint64_t num_bytes() const override { return num_bytes_; }
  std::uint64_t num_documents() const override { return num_entries_ > 0 ? num_entries_ - 1 : 0; }
  std::string id_type() const override { return name_of(type_); }

  void read(std::uint64_t first, std::size_t count, std::int64_t vocab_size,
            std::int32_t* ids) const override {
    read_ids({.path = path_, .offset = 0, .type = type_}, first, count, vocab_size, ids);
  }

  std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                             std::size_t count) const override {
    std::vector<std::uint64_t> starts;
    const std::uint64_t end = std::min<std::uint64_t>(first + count, num_tokens_);
    if (first >= end) return starts;
    const File index = File::open(index_path_);
    std::uint64_t low = 0, high = num_documents();
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (document_start(index, middle) < first) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    for (; low < num_documents(); ++low) {
      const std::uint64_t start = document_start(index, low);
      if (start >= end) break;
      if (starts.empty() || starts.back() != start) starts.push_back(start);
    }
    return starts;
  }

 private:
  void read_header(const File& index) {
    const std::uint64_t size = index.size();
    std::array<char, kMagicBytes> magic{};
    if (size < kHeaderBytes) {
      refuse(formatted("the file has {} bytes, less than the header of an .idx", size), index_path_,
             "copy it again");
    }
    index.read(magic.data(), magic.size(), 0);
    if (std::memcmp(magic.data(), kMagic, kMagicBytes) != 0) {
      refuse("it does not start like a Megatron .idx", index_path_,
             "make it again, or rename it if its .bin has another format");
    }
    const auto version = number_at<std::uint64_t>(index, kMagicBytes);
    if (version != 1) {
      refuse(formatted("version {} of an .idx is not known", version), index_path_,
             "make it again with Megatron's preprocess_data.py");
    }
    const auto code = number_at<std::uint8_t>(index, kMagicBytes + 8);
    const std::optional<IdType> type = type_of(code);
    if (!type) {
      refuse(formatted("type {}{}", code,
                       code == 6 || code == 7 ? " has floating-point numbers, which are not ids"
                                              : " of ids is not known"),
             index_path_);
    }
    type_ = *type;
    num_sequences_ = number_at<std::uint64_t>(index, kMagicBytes + 9);
    num_entries_ = number_at<std::uint64_t>(index, kMagicBytes + 17);
    // Each length is checked separately, so that products cannot overflow.
    const std::uint64_t rest = size - kHeaderBytes;
    const bool fits = num_sequences_ <= rest / 12 && num_entries_ <= rest / 8;
    const std::uint64_t needed = fits ? num_sequences_ * 12 + num_entries_ * 8 : 0;
    if (!fits || (rest != needed && rest != needed + num_sequences_)) {
      refuse(formatted("the header announces {} sequences and {} entries of documents, more than "
                       "{} bytes hold",
                       num_sequences_, num_entries_, size),
             index_path_, "copy it again: it was cut off or changed");
    }
    places_ = kHeaderBytes + num_sequences_ * 4;
    documents_ = places_ + num_sequences_ * 8;
  }

  // Checks that sequences have no gaps. Returns the number of tokens.
  std::uint64_t check_sequences(const File& index) const {
    NumberReader<std::int32_t> lengths(index, kHeaderBytes, num_sequences_);
    NumberReader<std::int64_t> places(index, places_, num_sequences_);
    const std::size_t width = bytes_of(type_);
    std::uint64_t end = 0;  // cannot overflow: at most 2^60 sequences, each below 2^34 bytes
    for (std::uint64_t i = 0; i < num_sequences_; ++i) {
      const std::int32_t length = lengths.next();
      const std::int64_t place = places.next();
      const std::string subject = "sequence " + std::to_string(i);
      if (length < 0) refuse(formatted("{} has length {}", subject, length), index_path_);
      if (place < 0 || static_cast<std::uint64_t>(place) != end) {
        refuse(formatted("{} is at byte {}, not at {}, where the sequence before it ends", subject,
                         place, end),
               index_path_, "write the data set again: its sequences must follow each other");
      }
      end += static_cast<std::uint64_t>(length) * width;
      if (end > file_bytes_) {
        refuse(formatted("{} ends at byte {} of {} in the .bin", subject, end, file_bytes_),
               index_path_, "copy " + path_ + " again: it was cut off");
      }
    }
    return end / width;
  }

  void check_documents(const File& index) const {
    if (num_entries_ == 0 && num_sequences_ > 0) refuse("the .idx names no document", index_path_);
    NumberReader<std::int64_t> documents(index, documents_, num_entries_);
    std::int64_t before = 0;
    for (std::uint64_t i = 0; i < num_entries_; ++i) {
      const std::int64_t sequence = documents.next();
      const bool in_order = i == 0 ? sequence == 0 : sequence >= before;
      if (!in_order || static_cast<std::uint64_t>(sequence) > num_sequences_) {
        refuse(formatted("entry {} of the documents is sequence {} of {}{}", i, sequence,
                         num_sequences_,
                         i == 0 ? ", not the first" : ", after " + std::to_string(before)),
               index_path_);
      }
      before = sequence;
    }
    if (static_cast<std::uint64_t>(before) != num_sequences_) {
      refuse(formatted("the documents end at sequence {} of {}", before, num_sequences_),
             index_path_);
    }
  }

  // Checks the start again, because the file may have changed.
  std::uint64_t document_start(const File& index, std::uint64_t document) const {
    const auto sequence = number_at<std::int64_t>(index, documents_ + document * 8);
    if (sequence < 0 || static_cast<std::uint64_t>(sequence) > num_sequences_)
      refuse("the file changed while it was used", index_path_, "start again");
    if (static_cast<std::uint64_t>(sequence) == num_sequences_) return num_tokens_;
    const auto place =
        number_at<std::int64_t>(index, places_ + static_cast<std::uint64_t>(sequence) * 8);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(place, 0)) / bytes_of(type_);
  }

  std::string path_, index_path_;
  IdType type_ = IdType::kUint16;
  std::uint64_t num_sequences_ = 0, num_entries_ = 0;
  std::uint64_t places_ = 0, documents_ = 0;  // byte offsets of tables in the .idx
  std::uint64_t file_bytes_ = 0, num_bytes_ = 0, num_tokens_ = 0;
};

}  // namespace

std::unique_ptr<TokenFile> open_megatron(const std::string& path) {
  return std::make_unique<MegatronFile>(path);
}

}  // namespace sluice::data
