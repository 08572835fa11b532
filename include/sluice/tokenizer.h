// Converts text to token ids and back with the tokenizer.json of a Hugging Face model.
//
//     auto ids = sluice::Tokenizer::read("models/llama").encode("Hello");
//
// Ids and text match transformers' AutoTokenizer. Unimplemented parts and settings are refused by
// name. A call's time and memory are bounded by the text's length, even for hostile files. Const
// members are thread-safe.
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
  // Reads a tokenizer.json, or a directory with one and its settings (config.json and others).
  // Throws Error(kInput) with file and field for what is missing, malformed, too large, or not
  // implemented (docs/tokenizer.md).
  static Tokenizer read(const std::string& path);
  static Tokenizer parse(std::string_view json, const std::string& file_name);

  // add_special_tokens adds the post-processor's tokens, such as "<s>". Invalid UTF-8 counts as
  // U+FFFD. Throws Error(kInput) for a text above 1 GiB or that the file's rules expand beyond
  // bounds, or an unknown character without unk_token.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens = true) const;
  // Encodes without special tokens and without SentencePiece's leading space.
  std::vector<std::int32_t> encode_continuation(std::string_view text) const;
  // The post-processor's tokens before and after a document.
  const std::vector<std::int32_t>& prefix() const;
  const std::vector<std::int32_t>& suffix() const;

  // Throws Error(kInput) for an id that does not exist.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = false) const;

  // Looks up vocabulary and added tokens.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  // Returns "" if the id does not exist.
  std::string token_of(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  std::int64_t num_ids() const;  // largest id + 1

  // The texts of bos_token and eos_token, or "".
  const std::string& begin_token() const;
  const std::string& end_token() const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
