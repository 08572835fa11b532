#include "data/text_tokens.h"

#include <algorithm>
#include <filesystem>

#include "base/content_hash.h"
#include "base/file.h"
#include "data/special_tokens.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kByteVocabulary = 256;  // byte-level tokens are the bytes
// Tokenizers may have a few special tokens that their model has no embedding for, such as Gemma 3's
// of images. More are another model's.
constexpr std::int64_t kMaxTokensBeyond = 1024;

std::string file_of(const TokenDataOptions& options) {
  const std::string& tokenizer = options.data.tokenizer;
  if (tokenizer == "bytes") return {};
  std::error_code ignored;
  if (tokenizer == "auto") {
    const std::string file = options.model_directory + "/tokenizer.json";
    return !options.model_directory.empty() && fs::exists(file, ignored) ? file : "";
  }
  const std::string file =
      fs::is_directory(tokenizer, ignored) ? tokenizer + "/tokenizer.json" : tokenizer;
  if (fs::exists(file, ignored)) return file;
  throw Error(
      ErrorKind::kInput,
      {.what = "data.tokenizer: there is no '" + file + "'",
       .where = tokenizer,
       .remedy = "name a tokenizer.json or a directory that holds one, or write \"bytes\""});
}

}  // namespace

TextTokens::TextTokens(const TokenDataOptions& options)
    : file_(file_of(options)), vocab_size_(options.vocab_size) {}

const TextTokens::Loaded& TextTokens::loaded() const {
  const std::lock_guard lock(loading_);
  if (!loaded_) {
    Tokenizer tokenizer = Tokenizer::read(file_);
    require_ids_fit(tokenizer);
    const SpecialTokens special = read_special_tokens(file_);
    std::string begin = special.begin.text_in(tokenizer), end = special.end.text_in(tokenizer);
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
              {.what = "the tokenizer has ids up to " + std::to_string(num_ids - 1) +
                       ", the model a vocabulary of " + std::to_string(vocab_size_),
               .where = file_,
               .remedy = "set data.tokenizer to the tokenizer of the model"});
}

void TextTokens::require_fit() const {
  if (!is_bytes()) {
    loaded();
    return;
  }
  if (vocab_size_ >= kByteVocabulary) return;
  throw Error(
      ErrorKind::kInput,
      {.what = "text becomes one token per byte, which needs a vocabulary of 256; the model has " +
               std::to_string(vocab_size_),
       .remedy = "give the model a tokenizer.json, use .jsonl rows with input_ids, or a model with "
                 "vocab_size >= 256"});
}

const Tokenizer& TextTokens::tokenizer() const { return loaded().tokenizer; }

std::vector<std::int32_t> TextTokens::encode(std::string_view text, bool add_special_tokens) const {
  if (!is_bytes()) return tokenizer().encode(text, add_special_tokens);
  require_fit();
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

std::string TextTokens::identity() const {
  if (is_bytes()) return "bytes";
  const SpecialTokens special = read_special_tokens(file_);
  std::string text = content_hash(read_text(file_, kMaxTokenizerBytes));
  for (const SpecialToken* token : {&special.begin, &special.end}) {
    text += " " + std::to_string(token->text.size()) + ":" + token->text;
    if (token->id) text += std::to_string(*token->id);
  }
  return text;
}

}  // namespace sluice::data
