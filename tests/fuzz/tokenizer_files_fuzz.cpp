// "---" lines separate tokenizer_config.json, special_tokens_map.json, added_tokens.json and
// config.json. An empty file is absent. The result must be an input error, or a tokenizer that
// encodes any text to ids within its range.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/tokenizer_parts.h"
#include "fuzz/require.h"
#include "sluice/error.h"

using sluice::test::require;

namespace {

constexpr const char* kTokenizer = R"({"model": {"type": "BPE",
  "vocab": {"a": 0, "b": 1, "ab": 2, "<unk>": 3, "Ġ": 4}, "merges": ["a b"]},
  "added_tokens": [{"id": 3, "content": "<unk>", "single_word": false, "lstrip": false,
                    "rstrip": true, "normalized": false, "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true}})";

}  // namespace

extern "C" int fuzz_tokenizer_files(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::data;
  const std::string text(data, data + size);
  TokenizerTexts texts{.file = "model/tokenizer.json", .tokenizer = kTokenizer};
  const std::array files = {&texts.tokenizer_config, &texts.special_tokens_map, &texts.added_tokens,
                            &texts.config};
  std::size_t at = 0;
  for (std::optional<std::string>* file : files) {
    const std::string separator = "\n---\n";
    const std::size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) *file = text.substr(at, end - at);
    at = std::min(end + separator.size(), text.size());
  }
  try {
    const TokenizerParts parts = parts_of_directory(texts);
    const JsonField root(parts.document, parts.file, "");
    const Bpe model(root["model"]);
    const Normalizer normalizer(root["normalizer"]);
    const AddedTokens added(parts.added, model, normalizer);
    for (const auto& [id, token] : added.by_id()) {
      require(id >= 0 && !token.content.empty());
      require(added.id_of(token.content) == id);
    }
    std::size_t covered = 0;
    const std::string probe = " a<unk>  <s>\n\nab<|endoftext|> ";
    auto between = [&](TextPiece piece) { covered += piece.text.size(); };
    auto token = [&](std::int32_t id) { require(added.by_id().contains(id)); };
    added.cut_text({probe, 1}, between, token);
    require(covered <= probe.size() * probe.size());
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
    require(!error.where().empty());
  }
  return 0;
}
