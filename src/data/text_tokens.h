// The tokens of text: the bytes themselves, or a tokenizer.json.
//
// Owns: which of them it is, when the tokenizer is read, that it fits the model's vocabulary, and
// which tokens start and end a text.
// Does not own: tokenizing (tokenizer.h), chat templates (chat_template.h).
// Invariant: the tokenizer is read, and an unusable one refused, when a text first needs it. Rows
// of ids need none.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/data.h"
#include "sluice/error.h"
#include "sluice/tokenizer.h"

namespace sluice::data {

class TextTokens {
 public:
  // Throws Error(kInput) if data.tokenizer is a path without a tokenizer.
  explicit TextTokens(const TokenDataOptions& options);

  // Also true if "auto" found a tokenizer of another form. Any text is then refused.
  bool is_bytes() const { return file_.empty(); }
  const std::string& file() const { return file_; }  // the tokenizer.json; "" for bytes

  // These throw Error(kInput) for an unreadable tokenizer, and for ids or bytes beyond the
  // vocabulary. If "auto" chose bytes, they add a warning.

  // add_special_tokens: as Tokenizer::encode; bytes have none.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const;
  // Precondition: !is_bytes().
  const Tokenizer& tokenizer() const;
  void require_fit() const;

  // The tokens that start and end a text, as the files beside the tokenizer name them: "" for
  // bytes, or where none is named.
  std::string begin_token() const;
  std::string end_token() const;
  std::optional<std::int32_t> end_id() const;
  // Appends the end token to a text that lacks it, or without `append` adds a warning. Throws
  // Error(kUsage) if `append` is set and the tokenizer has no end token.
  void end_text(std::vector<std::int32_t>& ids, bool append) const;

  // Keeps a warning about the tokenizer's directory for the user who starts a run, each once; "" is
  // nothing.
  void warn(const std::string& text) const;
  std::vector<std::string> warnings() const;
  // Keeps what an option that is "auto" became; several texts of one option are joined by "and".
  void note(const std::string& option, const std::string& choice) const;
  std::map<std::string, std::string> choices() const;

  // A digest of all that decides tokens: equal ones make the same of every text.
  std::string identity() const;

 private:
  struct Loaded {
    Tokenizer tokenizer;
    std::string begin_token, end_token;
  };
  const Loaded& loaded() const;
  void require_bytes() const;
  void require_ids_fit(const Tokenizer& tokenizer) const;

  std::string file_;
  std::int64_t vocab_size_;
  std::optional<Error> refusal_;  // if "auto" found a tokenizer of another form
  std::string directory_;         // where "auto" searched
  bool is_auto_ = false;
  mutable std::mutex loading_;
  mutable std::unique_ptr<const Loaded> loaded_;
  mutable std::mutex warning_;
  mutable std::vector<std::string> warnings_;
  mutable std::map<std::string, std::vector<std::string>> choices_;  // by option
};

}  // namespace sluice::data
