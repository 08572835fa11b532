// Text to token ids and back, by the tokenizer.json of a Hugging Face model.
//
// Invariants:
//  1. Ids and decoded text are those of Hugging Face's `tokenizers`; a part that is not implemented
//     is refused by its name when the file is read.
//  2. Ids of a tokenizer that was read from a path are those of transformers' AutoTokenizer for the
//     file's directory, or it is refused, with the name of the setting that is not followed.
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
  // Reads a tokenizer. path: a tokenizer.json, or the directory that holds one. The settings in
  // tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json beside it
  // apply. Throws Error(kInput) naming the file and the field: missing, malformed, larger than a
  // tokenizer can be, a part or a setting that is not followed (docs/tokenizer.md).
  static Tokenizer read(const std::string& path);
  // The tokenizer of a tokenizer.json alone.
  static Tokenizer parse(std::string_view json, const std::string& file_name);

  // The ids of a text. add_special_tokens: with the tokens that the post-processor adds, such as
  // "<s>" in front. Bytes that are not UTF-8 count as U+FFFD. Throws Error(kInput): a text of more
  // than 1 GiB, one that a hostile file's pattern or normalizer takes beyond all bounds, a
  // character outside a vocabulary whose unk_token is not a token.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens = true) const;
  // The ids of a text that continues another piece of the same document: nothing is put before it,
  // neither special tokens nor the space that a SentencePiece model starts with.
  std::vector<std::int32_t> encode_further(std::string_view text) const;
  // The tokens that the post-processor puts before and after a document.
  const std::vector<std::int32_t>& prefix() const;
  const std::vector<std::int32_t>& suffix() const;

  // The text of these ids. Throws Error(kInput) for an id that does not exist.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = false) const;

  // The id of the token with this text, added ones too.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  // The text of a token; "" if the id does not exist.
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
