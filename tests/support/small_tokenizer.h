#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace sluice::test {

// A byte in GPT-2's notation: printable bytes stay, others map to U+0100 and up, in UTF-8.
inline std::string byte_character(int byte) {
  const auto is_plain = [](int b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
  };
  int code = byte;
  if (!is_plain(byte)) {
    code = 0x100;
    for (int other = 0; other < byte; ++other) code += is_plain(other) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

struct SmallTokenizer {
  // Pairs of existing tokens in GPT-2's notation, such as {"t", "h"}, {"th", "e"}.
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::string> special;
  std::string begin, end;  // special tokens put around every text; "" for none

  // Ids of the bytes, then the merges in order, then the special tokens.
  std::map<std::string, int> ids() const {
    std::map<std::string, int> ids;
    for (int byte = 0; byte < 256; ++byte) ids[byte_character(byte)] = byte;
    for (const auto& [left, right] : merges)
      ids.emplace(left + right, static_cast<int>(ids.size()));
    for (const std::string& token : special) ids.emplace(token, static_cast<int>(ids.size()));
    return ids;
  }
  int size() const { return static_cast<int>(ids().size()); }

  std::string json() const {
    using nlohmann::json;
    json vocabulary = json::object(), pairs = json::array(), added = json::array();
    const std::map<std::string, int> all = ids();
    for (const auto& [token, id] : all) vocabulary[token] = id;
    for (const std::string& token : special) {
      vocabulary.erase(token);
      added.push_back({{"id", all.at(token)},
                       {"content", token},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    }
    for (const auto& [left, right] : merges) pairs.push_back(left + " " + right);
    json post = nullptr;
    if (!begin.empty() || !end.empty()) {
      json single = json::array(), tokens = json::object();
      const auto add = [&](const std::string& token) {
        if (token.empty()) return;
        single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
        tokens[token] = {{"id", token}, {"ids", {all.at(token)}}, {"tokens", {token}}};
      };
      add(begin);
      single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
      add(end);
      post = {{"type", "TemplateProcessing"},
              {"single", single},
              {"pair", json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                    {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}})},
              {"special_tokens", tokens}};
    }
    return json{{"version", "1.0"},
                {"truncation", nullptr},
                {"padding", nullptr},
                {"added_tokens", added},
                {"normalizer", nullptr},
                {"pre_tokenizer",
                 {{"type", "ByteLevel"},
                  {"add_prefix_space", false},
                  {"trim_offsets", true},
                  {"use_regex", true}}},
                {"post_processor", post},
                {"decoder",
                 {{"type", "ByteLevel"},
                  {"add_prefix_space", true},
                  {"trim_offsets", true},
                  {"use_regex", true}}},
                {"model",
                 {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", nullptr},
                  {"continuing_subword_prefix", nullptr},
                  {"end_of_word_suffix", nullptr},
                  {"fuse_unk", false},
                  {"byte_fallback", false},
                  {"ignore_merges", false},
                  {"vocab", vocabulary},
                  {"merges", pairs}}}}
        .dump();
  }
};

}  // namespace sluice::test
