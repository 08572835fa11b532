// Files as one row of tokens, any of which can be read by itself: text, and files of ids.
//
// Owns: the places of tokens in the files, and the starts of documents.
// Does not own: cutting them into sequences (stream_source.cpp).
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sequence_source.h"

namespace sluice::data {

class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::uint64_t num_tokens() const = 0;
  virtual std::uint64_t num_bytes() const = 0;  // size of all files
  // Tokens [first, first + count). Throws Error(kInput) naming the file: it became shorter, an id
  // outside of the vocabulary. Precondition: they exist.
  virtual void read(std::uint64_t first, std::size_t count, std::int32_t* ids) const = 0;
  // The places in [first, first + count) where documents begin, ascending.
  virtual std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                                     std::size_t count) const = 0;
  // "file, byte 12". Precondition: token < num_tokens().
  virtual std::string place(std::uint64_t token) const = 0;
  // The unit of which a file without a whole sequence has too few.
  virtual std::string unit() const { return "tokens"; }
  // Nats per token, where that is a number to beat.
  virtual std::optional<double> unigram_entropy() const { return std::nullopt; }
};

// The start of each of several things in a row, and the end of the last.
class Starts {
 public:
  void add(std::uint64_t size) { starts_.push_back(starts_.back() + size); }
  std::uint64_t total() const { return starts_.back(); }
  std::size_t size() const { return starts_.size() - 1; }
  std::uint64_t first(std::size_t i) const { return starts_[i]; }
  std::uint64_t end(std::size_t i) const { return starts_[i + 1]; }
  // The one that holds `position`. Precondition: position < total().
  std::size_t holder(std::uint64_t position) const;
  // Those in [first, first + count) where one starts that holds something.
  std::vector<std::uint64_t> starts_in(std::uint64_t first, std::size_t count) const;

 private:
  std::vector<std::uint64_t> starts_ = {0};
};

// The bytes of the files. Throws Error(kInput) when the vocabulary has no room for bytes.
std::unique_ptr<TokenStream> open_bytes(const SourceOptions& options);
// Reads text, each file a document, by a tokenizer.
std::unique_ptr<TokenStream> open_text_tokens(const SourceOptions& options);
// Reads options.format, each file a document, but that Megatron's say where theirs start.
std::unique_ptr<TokenStream> open_token_files(const SourceOptions& options);

// Cut every seq_len; the rest at the end is dropped. With options.pack positions restart where a
// document begins, and its first label is not counted.
std::unique_ptr<SequenceSource> cut_stream(std::unique_ptr<TokenStream> stream,
                                           const SourceOptions& options);

}  // namespace sluice::data
