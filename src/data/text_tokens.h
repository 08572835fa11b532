// Converts text to bytes, or to ids of a tokenizer.json that is read when first needed. Const
// members are thread-safe.
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

  // Also true if "auto" found an unsupported tokenizer, but then encoding throws.
  bool is_bytes() const { return file_.empty(); }
  const std::string& file() const { return file_; }

  // The next three functions throw Error(kInput) for an unreadable tokenizer or ids beyond the
  // vocabulary. They warn if "auto" chose bytes.

  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const;
  // Precondition: !is_bytes().
  const Tokenizer& tokenizer() const;
  void require_fit() const;

  // Return "" if tokens are bytes or the tokenizer has no such token.
  std::string begin_token() const;
  std::string end_token() const;
  std::optional<std::int32_t> end_id() const;
  // Appends the end token if it is missing and `append` is set, otherwise warns. Throws
  // Error(kUsage) if `append` is set and there is no end token.
  void end_text(std::vector<std::int32_t>& ids, bool append) const;

  // Records a warning once. Ignores "".
  void warn(const std::string& text) const;
  std::vector<std::string> warnings() const;
  // Records the value that "auto" chose for an option.
  void note(const std::string& option, const std::string& choice) const;
  std::map<std::string, std::string> choices() const;

  // Equal digests mean equal tokens for every text.
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
  std::optional<Error> refusal_;  // thrown by encoding if "auto" found an unsupported tokenizer
  std::string directory_;
  bool is_auto_ = false;
  mutable std::mutex loading_;
  mutable std::unique_ptr<const Loaded> loaded_;
  mutable std::mutex warning_;
  mutable std::vector<std::string> warnings_;
  mutable std::map<std::string, std::vector<std::string>> choices_;
};

}  // namespace sluice::data
