// Files of token ids, all little-endian.
//   - llm.c: a header of 256 int32, then the ids. The header has magic number 20240520 and version
//     1 for uint16 ids, or 20240801 and 7 for uint32 ids, then the number of ids.
//   - nanoGPT: uint16 ids only.
//   - Megatron: a .bin with ids and an .idx (megatron_file.cpp).
// Memory grows neither with the file size nor with sizes in headers. Const members are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

class TokenFile {
 public:
  virtual ~TokenFile() = default;
  virtual std::uint64_t num_tokens() const = 0;
  virtual std::uint64_t num_bytes() const = 0;
  // Throws Error(kInput) for an id outside the vocabulary, or if the file became shorter.
  // Precondition: first + count <= num_tokens().
  virtual void read(std::uint64_t first, std::size_t count, std::int64_t vocab_size,
                    std::int32_t* ids) const = 0;
  // Returns where non-empty documents start in [first, first + count), ascending.
  virtual std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                                     std::size_t count) const = 0;
  virtual std::uint64_t num_documents() const = 0;
  virtual std::string id_type() const = 0;
};

// For kMegatron, `path` is the .bin. Throws Error(kInput) for a missing file or another format.
std::unique_ptr<TokenFile> open_token_file(const std::string& path, DataFormat format);
std::unique_ptr<TokenFile> open_megatron(const std::string& path);

// Returns kMegatron for a .bin beside an .idx, kLlmc by magic number, otherwise kNanogpt.
DataFormat format_of_token_file(const std::string& path);

std::string bin_of_index(const std::string& path);
std::string index_of_bin(const std::string& path);

enum class IdType { kUint8, kInt8, kInt16, kInt32, kInt64, kUint16, kUint32 };
std::size_t bytes_of(IdType type);
std::string name_of(IdType type);

struct StoredIds {
  const std::string& path;
  std::uint64_t offset = 0;
  IdType type = IdType::kUint16;
};
void read_ids(const StoredIds& stored, std::uint64_t first, std::size_t count,
              std::int64_t vocab_size, std::int32_t* ids);

}  // namespace sluice::data
