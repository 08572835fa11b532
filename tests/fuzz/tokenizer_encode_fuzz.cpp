// A byte-level tokenizer must decode to the same text (except for invalid UTF-8), and a word alone
// must have the same ids as in a text. The other tokenizers must not crash.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fuzz/require.h"
#include "sluice/tokenizer.h"

using sluice::test::require;

namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

void append_utf8(std::string& text, unsigned c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else {
    text += static_cast<char>(0xC0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// A tokenizer with a token for each byte, and some merges.
sluice::Tokenizer byte_level() {
  Json vocab;
  int id = 0;
  for (unsigned byte = 0, other = 0x100; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    std::string token;
    append_utf8(token, printable ? byte : other++);
    vocab[token] = id++;
  }
  Json merges = Json::array();
  for (const auto& [left, right] : {std::pair{"a", "b"},
                                    {"ab", "ab"},
                                    {"Ġ", "a"},
                                    {"Ġa", "b"},
                                    {"Ã", "¤"},
                                    {"a", "a"},
                                    {"aa", "aa"}}) {
    merges.push_back({left, right});
    vocab[std::string(left) + right] = id++;
  }
  const Json split = {{"type", "Split"},
                      {"pattern",
                       {{"Regex",
                         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                         "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"use_regex", false},
                      {"trim_offsets", false}};
  const Json file = {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
                     {"decoder", bytes}};
  return sluice::Tokenizer::parse(file.dump(), "byte_level");
}

// Resembles a SentencePiece model. It normalizes first and has an unknown token for most
// characters.
sluice::Tokenizer sentencepiece() {
  Json vocab = {{"<unk>", 0}};
  int id = 1;
  for (const char* token : {"▁", "a", "b", "e", "ab", "▁a", "▁▁", "<0xC3>", "<0xA4>", "<0x0A>"})
    vocab[token] = id++;
  const Json file = {
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", {"a b", "▁ a", "▁ ▁"}},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true}}},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "NFKC"}},
          {{"type", "Lowercase"}},
          {{"type", "Prepend"}, {"prepend", "▁"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"added_tokens",
       {{{"id", 0},
         {"content", "<unk>"},
         {"single_word", false},
         {"lstrip", true},
         {"rstrip", true},
         {"normalized", false},
         {"special", true}}}}};
  return sluice::Tokenizer::parse(file.dump(), "sentencepiece");
}

}  // namespace

extern "C" int fuzz_tokenizer_encode(const std::uint8_t* data, std::size_t size) {
  static const sluice::Tokenizer bytes = byte_level(), pieces = sentencepiece();
  const std::string text(data, data + size);
  const Ids ids = bytes.encode(text);
  const std::string back = bytes.decode(ids);
  require(bytes.decode(bytes.encode(back)) == back);
  if (back.find("\xEF\xBF\xBD") == std::string::npos) require(back == text);
  // A line break ends a word, and the next word starts without it.
  Ids twice = bytes.encode(back + "\nab");
  const Ids last = bytes.encode("ab");
  require(twice.size() >= last.size() &&
          Ids(twice.end() - static_cast<std::ptrdiff_t>(last.size()), twice.end()) == last);
  for (const std::int32_t id : pieces.encode(text)) require(id >= 0 && id < pieces.num_ids());
  pieces.decode(pieces.encode(text));
  return 0;
}
