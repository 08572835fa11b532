#include "data/text_tokens.h"

#include <algorithm>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "data/special_tokens.h"
#include "data/tokenizer/tokenizer_directory.h"
#include "data/tokenizer/tokenizer_parts.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::int64_t kByteVocabulary = 256;
// A few special tokens may lack an embedding, as in Gemma 3. More indicate another model's
// tokenizer.
constexpr std::int64_t kMaxTokensBeyond = 1024;

}  // namespace

TextTokens::TextTokens(const TokenDataOptions& options)
    : vocab_size_(options.vocab_size), is_auto_(options.data.tokenizer == "auto") {
  if (is_auto_) {
    directory_ = options.model_directory;
    try {
      file_ = tokenizer_in(directory_);
    } catch (const Error& error) {
      refusal_ = error;
    }
  } else if (options.data.tokenizer != "bytes") {
    file_ = tokenizer_at(options.data.tokenizer, "`data.tokenizer`: ");
  }
}

const TextTokens::Loaded& TextTokens::loaded() const {
  const std::lock_guard lock(loading_);
  if (!loaded_) {
    if (is_auto_) note("data.tokenizer", file_);
    Tokenizer tokenizer = Tokenizer::read(file_);
    require_ids_fit(tokenizer);
    const SpecialIds ids = read_special_ids(file_);
    const auto text = [&](const std::string& token, std::optional<std::int32_t> id) {
      return token.empty() && id ? tokenizer.token_of(*id) : token;
    };
    std::string begin = text(tokenizer.begin_token(), ids.begin);
    std::string end = text(tokenizer.end_token(), ids.end);
    loaded_ = std::make_unique<const Loaded>(
        Loaded{std::move(tokenizer), std::move(begin), std::move(end)});
  }
  return *loaded_;
}

void TextTokens::require_ids_fit(const Tokenizer& tokenizer) const {
  const std::int64_t num_ids = tokenizer.num_ids();
  bool fits = num_ids - vocab_size_ <= kMaxTokensBeyond;
  for (std::int64_t id = std::max<std::int64_t>(vocab_size_, 0); fits && id < num_ids; ++id) {
    const auto token = static_cast<std::int32_t>(id);
    fits = tokenizer.is_special(token) || tokenizer.token_of(token).empty();
  }
  if (fits) return;
  throw Error(ErrorKind::kInput,
              {.what = formatted("the tokenizer has ids up to {}, the model a vocabulary of {}",
                                 num_ids - 1, vocab_size_),
               .where = file_,
               .remedy = "set `data.tokenizer` to the model's tokenizer"});
}

void TextTokens::require_fit() const {
  if (!is_bytes()) {
    loaded();
    return;
  }
  require_bytes();
}

void TextTokens::require_bytes() const {
  if (refusal_) throw *refusal_;
  if (is_auto_) note("data.tokenizer", "bytes");
  if (is_auto_ && vocab_size_ >= kByteVocabulary) {
    warn(
        formatted("no tokenizer {}: every byte of text is a token; set `data.tokenizer` = "
                  "\"bytes\" to confirm this, or to the path of a tokenizer.json",
                  directory_.empty() ? "is named" : "is in '" + directory_ + "'"));
  }
  if (vocab_size_ >= kByteVocabulary) return;
  throw Error(
      ErrorKind::kInput,
      {.what =
           "text becomes one token per byte, which needs a vocabulary of 256, but the model has " +
           std::to_string(vocab_size_),
       .remedy = "give the model a tokenizer.json, use .jsonl rows with input_ids, or a model with "
                 "vocab_size >= 256"});
}

const Tokenizer& TextTokens::tokenizer() const { return loaded().tokenizer; }

std::vector<std::int32_t> TextTokens::encode(std::string_view text, bool add_special_tokens) const {
  if (!is_bytes()) return tokenizer().encode(text, add_special_tokens);
  require_bytes();
  std::vector<std::int32_t> ids(text.size());
  std::transform(text.begin(), text.end(), ids.begin(),
                 [](char c) { return static_cast<unsigned char>(c); });
  return ids;
}

std::string TextTokens::begin_token() const { return is_bytes() ? "" : loaded().begin_token; }
std::string TextTokens::end_token() const { return is_bytes() ? "" : loaded().end_token; }

std::optional<std::int32_t> TextTokens::end_id() const {
  if (is_bytes()) return std::nullopt;
  const Loaded& all = loaded();
  if (all.end_token.empty()) return std::nullopt;
  return all.tokenizer.id_of(all.end_token);
}

void TextTokens::end_text(std::vector<std::int32_t>& ids, bool append) const {
  const std::optional<std::int32_t> end = end_id();
  if (!end && append) {
    throw Error(ErrorKind::kUsage,
                {.what = is_bytes() ? "`data.append_eos` needs a tokenizer: bytes have no end token"
                                    : "`data.append_eos` needs an end token, which the tokenizer "
                                      "does not name",
                 .where = is_bytes() ? "`data.append_eos`" : file_,
                 .remedy = is_bytes() ? "name a tokenizer.json in `data.tokenizer`"
                                      : "name it as \"eos_token\" in tokenizer_config.json"});
  }
  if (!end || ids.empty() || ids.back() == *end) return;
  if (append) {
    ids.push_back(*end);
  } else {
    warn(
        formatted("texts end without the end token '{}', so the model does not learn to stop; set "
                  "`data.append_eos` = true",
                  end_token()));
  }
}

void TextTokens::warn(const std::string& text) const {
  const std::lock_guard lock(warning_);
  if (!text.empty() && std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
    warnings_.push_back(text);
}

std::vector<std::string> TextTokens::warnings() const {
  const std::lock_guard lock(warning_);
  return warnings_;
}

void TextTokens::note(const std::string& option, const std::string& choice) const {
  const std::lock_guard lock(warning_);
  std::vector<std::string>& choices = choices_[option];
  if (std::find(choices.begin(), choices.end(), choice) == choices.end()) choices.push_back(choice);
}

std::map<std::string, std::string> TextTokens::choices() const {
  const std::lock_guard lock(warning_);
  std::map<std::string, std::string> joined;
  for (const auto& [option, choices] : choices_) joined[option] = join(choices, " and ");
  return joined;
}

std::string TextTokens::identity() const {
  if (is_bytes()) return "bytes";
  const TokenizerTexts texts = read_tokenizer_texts(file_);
  const TokenizerParts parts = parts_of_directory(texts);
  const SpecialIds ids = read_special_ids(file_);
  std::string text = content_hash(texts.tokenizer);
  const auto add = [&](const std::string& token, std::optional<std::int32_t> id) {
    text += formatted(" {}:{}", token.size(), token);
    if (token.empty() && id) text += std::to_string(*id);
  };
  add(parts.begin, ids.begin);
  add(parts.end, ids.end);
  if (!parts.beside.empty()) text += " " + content_hash(parts.beside);
  return text;
}

}  // namespace sluice::data
