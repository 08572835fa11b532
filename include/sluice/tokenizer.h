// Text to token ids and back, as the tokenizer.json of a Hugging Face model says.
//
// Owns: the parts of a tokenizer.json, what they do to a text, and what the files beside it change.
// Does not own: which texts there are (data.h), chat templates.
//
// Invariants:
//  1. Ids and decoded text are those of Hugging Face's `tokenizers`; a part that is not implemented
//     is refused by its name when the file is read.
//  2. Ids of a tokenizer that was read from a path are those of transformers' AutoTokenizer for the
//     file's directory, or it is refused by what is not followed.
//  3. Time and memory of one call are bounded by the text's length, whatever the file holds.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

class Tokenizer {
 public:
  // path: a tokenizer.json, or the directory that holds one. What tokenizer_config.json,
  // special_tokens_map.json, added_tokens.json and config.json beside it say of it counts. Throws
  // Error(kInput) naming the file and the field: not there, malformed, larger than a tokenizer can
  // be, a part or a setting that is not followed (docs/tokenizer.md).
  static Tokenizer read(const std::string& path);
  // A tokenizer.json alone.
  static Tokenizer parse(std::string_view json, const std::string& file_name);

  // add_special_tokens: with what the post-processor adds, as "<s>" in front. Bytes that are no
  // UTF-8 are taken for U+FFFD. Throws Error(kInput): a text of more than 1 GiB, one that a pattern
  // or a normalizer of a hostile file takes beyond all bounds, a character outside a vocabulary
  // whose unk_token is no token.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens = true) const;
  // The ids of a text that goes on from another piece of the same document: nothing is put before
  // it, neither special tokens nor the space that a SentencePiece model begins with.
  std::vector<std::int32_t> encode_further(std::string_view text) const;
  // Where a document begins and ends: what the post-processor puts before and after it.
  const std::vector<std::int32_t>& prefix() const;
  const std::vector<std::int32_t>& suffix() const;

  // Throws Error(kInput) for an id that there is none of.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = false) const;

  // The id of the token with this text, added ones too.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  // "" if there is none.
  std::string token_of(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  std::int64_t num_ids() const;  // the largest id + 1

  // The texts of bos_token and eos_token; "" where no file names them.
  const std::string& begin_token() const;
  const std::string& end_token() const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;  // copies share it
};

}  // namespace sluice
