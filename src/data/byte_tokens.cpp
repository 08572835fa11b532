#include "data/byte_tokens.h"

#include <filesystem>

#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::int64_t kByteVocabulary = 256;  // byte-level tokens are the bytes

}  // namespace

std::string refusal_of_bytes(const TokenDataOptions& options) {
  const std::string& tokenizer = options.data.tokenizer;
  if (tokenizer == "bytes") return {};
  if (tokenizer != "auto") return "data.tokenizer '" + tokenizer + "' is not built yet";
  const std::string file = options.model_directory + "/tokenizer.json";
  std::error_code ignored;
  if (options.model_directory.empty() || !std::filesystem::exists(file, ignored)) return {};
  return "using the model's tokenizer.json is not built yet";
}

void require_byte_tokens(const SourceOptions& options, const std::string& where) {
  if (!options.text_refusal.empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = options.text_refusal,
                 .where = where,
                 .remedy = "set data.tokenizer = \"bytes\", or use .jsonl rows with input_ids"});
  }
  if (options.vocab_size < kByteVocabulary) {
    throw Error(
        ErrorKind::kInput,
        {.what =
             "text becomes one token per byte, which needs a vocabulary of 256; the model has " +
             std::to_string(options.vocab_size),
         .where = where,
         .remedy = "use .jsonl rows with input_ids, or a model with vocab_size >= 256"});
  }
}

}  // namespace sluice::data
