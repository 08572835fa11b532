// Several files as one stream of tokens. Const members are thread-safe.
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
  virtual std::uint64_t num_bytes() const = 0;
  // Throws Error(kInput) if a file became shorter or an id is outside the vocabulary. Precondition:
  // first + count <= num_tokens().
  virtual void read(std::uint64_t first, std::size_t count, std::int32_t* ids) const = 0;
  // Returns where documents start in [first, first + count), ascending.
  virtual std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                                     std::size_t count) const = 0;
  // Returns text such as "file, byte 12".
  virtual std::string place(std::uint64_t token) const = 0;
  virtual std::string unit() const { return "tokens"; }
  // In nats per token, if known.
  virtual std::optional<double> unigram_entropy() const { return std::nullopt; }
};

class Starts {
 public:
  void add(std::uint64_t size) { starts_.push_back(starts_.back() + size); }
  std::uint64_t total() const { return starts_.back(); }
  std::size_t size() const { return starts_.size() - 1; }
  std::uint64_t first(std::size_t i) const { return starts_[i]; }
  std::uint64_t end(std::size_t i) const { return starts_[i + 1]; }
  // Precondition: position < total().
  std::size_t holder(std::uint64_t position) const;
  // Returns the starts of non-empty ranges in [first, first + count).
  std::vector<std::uint64_t> starts_in(std::uint64_t first, std::size_t count) const;

 private:
  std::vector<std::uint64_t> starts_ = {0};
};

// Throws Error(kInput) if the vocabulary is too small for bytes.
std::unique_ptr<TokenStream> open_bytes(const SourceOptions& options);
std::unique_ptr<TokenStream> open_text_tokens(const SourceOptions& options);
// Each file is one document, except Megatron files, which store several.
std::unique_ptr<TokenStream> open_token_files(const SourceOptions& options);

// Cuts the stream every seq_len tokens and drops the incomplete last sequence. With options.pack,
// positions restart at each document, and its first label does not count for the loss.
std::unique_ptr<SequenceSource> cut_stream(std::unique_ptr<TokenStream> stream,
                                           const SourceOptions& options);

}  // namespace sluice::data
