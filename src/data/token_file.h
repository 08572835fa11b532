// Files of token ids: those of llm.c and nanoGPT, and Megatron's pair of .bin and .idx.
//
// Formats: llm.c's has a header of 256 int32 (magic number 20240520 and version 1 of uint16 ids,
// 20240801 and 7 of uint32 ids; then the number of ids) and then just the ids; nanoGPT's has uint16
// ids alone; Megatron's .idx says where the sequences of the .bin lie, of which type its ids are,
// and with which sequence each document starts. All are little-endian.
//
// Owns: checking the headers, reading ids and the starts of documents.
// Does not own: the use of the ids (token_stream.h).
// Invariants: opening reads headers, and of an .idx all in pieces: memory does not follow the size
// of the files, nor what they claim. Ids are compared with the vocabulary as they are read.
// Thread-safety: const members may be called from any thread.
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
  // Throws Error(kInput): an id that is not below vocab_size, a file that became shorter.
  // Precondition: first + count <= num_tokens().
  virtual void read(std::uint64_t first, std::size_t count, std::int64_t vocab_size,
                    std::int32_t* ids) const = 0;
  // The places in [first, first + count) where documents start that are not empty, ascending.
  virtual std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                                     std::size_t count) const = 0;
  virtual std::uint64_t num_documents() const = 0;
  virtual std::string id_type() const = 0;  // "uint16"
};

// format: kLlmc, kNanogpt, kMegatron (path: the .bin). Throws Error(kInput) naming the file that is
// missing or not of this format.
std::unique_ptr<TokenFile> open_token_file(const std::string& path, DataFormat format);
std::unique_ptr<TokenFile> open_megatron(const std::string& path);

// The format of a .bin: kMegatron beside an .idx, kLlmc with its magic number, else kNanogpt.
// Throws Error(kInput) when it cannot be read.
DataFormat format_of_token_file(const std::string& path);

// "a.bin" of "a.idx" and the other way.
std::string bin_of_index(const std::string& path);
std::string index_of_bin(const std::string& path);

enum class IdType { kUint8, kInt8, kInt16, kInt32, kInt64, kUint16, kUint32 };
std::size_t bytes_of(IdType type);
std::string name_of(IdType type);

// Ids of one type behind each other, from byte `offset` of a file on.
struct StoredIds {
  const std::string& path;
  std::uint64_t offset = 0;
  IdType type = IdType::kUint16;
};
// Those from number `first` on. Throws Error(kInput) at "path, token N" for one that is not below
// vocab_size, and for a file that became shorter.
void read_ids(const StoredIds& stored, std::uint64_t first, std::size_t count,
              std::int64_t vocab_size, std::int32_t* ids);

}  // namespace sluice::data
