#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are read as they lie in the file");

constexpr std::size_t kLlmcHeader = 256;
constexpr std::int32_t kLlmcMagic16 = 20240520, kLlmcMagic32 = 20240801;
constexpr std::int32_t kLlmcVersion16 = 1, kLlmcVersion32 = 7;
constexpr std::size_t kBlockTokens = std::size_t{1} << 16;

[[noreturn]] void refuse_file(const std::string& what, const std::string& path,
                              const std::string& remedy) {
  throw Error(ErrorKind::kInput, {.what = what, .where = path, .remedy = remedy});
}

template <typename Stored>
void widen(const unsigned char* bytes, std::size_t count, std::int64_t vocab_size,
           const std::string& path, std::uint64_t first, std::int32_t* ids) {
  for (std::size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes + i * sizeof(Stored), sizeof(Stored));
    const auto id = static_cast<std::int64_t>(stored);
    if (id < 0 || id >= vocab_size) {
      refuse_file(formatted("id {} is outside of the vocabulary of {}", id, vocab_size),
                  formatted("{}, token {}", path, first + i),
                  "was the file made with another tokenizer, or is `data.format` another?");
    }
    ids[i] = static_cast<std::int32_t>(id);
  }
}

void widen_ids(const unsigned char* bytes, std::size_t count, IdType type, std::int64_t vocab_size,
               const std::string& path, std::uint64_t first, std::int32_t* ids) {
  switch (type) {
    case IdType::kUint8:
      return widen<std::uint8_t>(bytes, count, vocab_size, path, first, ids);
    case IdType::kInt8:
      return widen<std::int8_t>(bytes, count, vocab_size, path, first, ids);
    case IdType::kInt16:
      return widen<std::int16_t>(bytes, count, vocab_size, path, first, ids);
    case IdType::kInt32:
      return widen<std::int32_t>(bytes, count, vocab_size, path, first, ids);
    case IdType::kUint16:
      return widen<std::uint16_t>(bytes, count, vocab_size, path, first, ids);
    case IdType::kUint32:
      return widen<std::uint32_t>(bytes, count, vocab_size, path, first, ids);
    case IdType::kInt64:
      break;
  }
  widen<std::int64_t>(bytes, count, vocab_size, path, first, ids);
}

// The whole file is one document.
class PlainTokenFile final : public TokenFile {
 public:
  PlainTokenFile(std::string path, std::uint64_t file_bytes, std::uint64_t offset, IdType type)
      : path_(std::move(path)),
        file_bytes_(file_bytes),
        offset_(offset),
        num_tokens_((file_bytes - offset) / bytes_of(type)),
        type_(type) {}

  std::uint64_t num_tokens() const override { return num_tokens_; }
  std::uint64_t num_bytes() const override { return file_bytes_; }
  std::uint64_t num_documents() const override { return num_tokens_ > 0 ? 1 : 0; }
  std::string id_type() const override { return name_of(type_); }

  void read(std::uint64_t first, std::size_t count, std::int64_t vocab_size,
            std::int32_t* ids) const override {
    read_ids({.path = path_, .offset = offset_, .type = type_}, first, count, vocab_size, ids);
  }

  std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                             std::size_t count) const override {
    if (first > 0 || count == 0 || num_tokens_ == 0) return {};
    return {0};
  }

 private:
  std::string path_;
  std::uint64_t file_bytes_, offset_, num_tokens_;
  IdType type_;
};

std::unique_ptr<TokenFile> open_llmc(const std::string& path) {
  const File file = File::open(path);
  const std::uint64_t size = file.size();
  std::array<std::int32_t, kLlmcHeader> header{};
  if (size < sizeof(header)) {
    refuse_file(formatted("the file has {} bytes, less than the header of an llm.c file", size),
                path, "copy it again, or correct `data.format`");
  }
  file.read(header.data(), sizeof(header), 0);
  const auto [magic, version, num_tokens] = std::array{header[0], header[1], header[2]};
  if (magic != kLlmcMagic16 && magic != kLlmcMagic32) {
    refuse_file(formatted("the magic number is {}, not an llm.c file's", magic), path,
                "set `data.format` to what the file is, as \"nanogpt\"");
  }
  const bool wide = magic == kLlmcMagic32;
  if (version != (wide ? kLlmcVersion32 : kLlmcVersion16)) {
    refuse_file(formatted("version {} of an llm.c file with ids of {} bits is not known", version,
                          wide ? "32" : "16"),
                path, "write it again with a current llm.c");
  }
  const IdType type = wide ? IdType::kUint32 : IdType::kUint16;
  const std::uint64_t ids = num_tokens < 0 ? 0 : static_cast<std::uint64_t>(num_tokens);
  if (num_tokens < 0 || size != sizeof(header) + ids * bytes_of(type)) {
    refuse_file(formatted("the header announces {} tokens of {} bytes, but {} bytes follow it",
                          num_tokens, bytes_of(type), size - sizeof(header)),
                path, "copy it again: it was cut off or changed");
  }
  return std::make_unique<PlainTokenFile>(path, size, sizeof(header), type);
}

std::unique_ptr<TokenFile> open_nanogpt(const std::string& path) {
  const std::uint64_t size = File::open(path).size();
  if (size % bytes_of(IdType::kUint16) != 0) {
    refuse_file(formatted("the file has {} bytes, which is not a whole number of 16-bit ids", size),
                path, "copy it again, or correct `data.format`");
  }
  return std::make_unique<PlainTokenFile>(path, size, 0, IdType::kUint16);
}

}  // namespace

std::size_t bytes_of(IdType type) {
  switch (type) {
    case IdType::kUint8:
    case IdType::kInt8:
      return 1;
    case IdType::kInt16:
    case IdType::kUint16:
      return 2;
    case IdType::kInt32:
    case IdType::kUint32:
      return 4;
    case IdType::kInt64:
      break;
  }
  return 8;
}

std::string name_of(IdType type) {
  switch (type) {
    case IdType::kUint8:
      return "uint8";
    case IdType::kInt8:
      return "int8";
    case IdType::kInt16:
      return "int16";
    case IdType::kInt32:
      return "int32";
    case IdType::kUint16:
      return "uint16";
    case IdType::kUint32:
      return "uint32";
    case IdType::kInt64:
      break;
  }
  return "int64";
}

void read_ids(const StoredIds& stored, std::uint64_t first, std::size_t count,
              std::int64_t vocab_size, std::int32_t* ids) {
  const File file = File::open(stored.path);
  const std::size_t width = bytes_of(stored.type);
  std::vector<unsigned char> bytes(std::min(count, kBlockTokens) * width);
  for (std::size_t done = 0; done < count;) {
    const std::size_t block = std::min(count - done, kBlockTokens);
    file.read(bytes.data(), block * width, stored.offset + (first + done) * width);
    widen_ids(bytes.data(), block, stored.type, vocab_size, stored.path, first + done, ids + done);
    done += block;
  }
}

std::unique_ptr<TokenFile> open_token_file(const std::string& path, DataFormat format) {
  if (format == DataFormat::kMegatron) return open_megatron(path);
  return format == DataFormat::kLlmc ? open_llmc(path) : open_nanogpt(path);
}

DataFormat format_of_token_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(index_of_bin(path), ignored)) return DataFormat::kMegatron;
  std::int32_t magic = 0;
  const bool is_llmc = File::open(path).read_some(&magic, sizeof(magic), 0) == sizeof(magic) &&
                       (magic == kLlmcMagic16 || magic == kLlmcMagic32);
  return is_llmc ? DataFormat::kLlmc : DataFormat::kNanogpt;
}

std::string bin_of_index(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".bin").string();
}
std::string index_of_bin(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".idx").string();
}

}  // namespace sluice::data
