#include "data/tokenizer/rebuilt_class.h"

#include <algorithm>
#include <string>

#include "base/strict_json.h"

namespace sluice::data {
namespace {

constexpr std::string_view kGpt2 = R"({
  "model": {},
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": @prefix@, "trim_offsets": true,
                    "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true}})";

constexpr std::string_view kGptNeoX = R"({
  "model": {},
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": @prefix@, "trim_offsets": true,
                    "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true}})";

constexpr std::string_view kQwen2 = R"({
  "model": {},
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": @prefix@, "trim_offsets": true,
     "use_regex": false}]},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true}})";

constexpr std::string_view kLlama = R"({
  "model": {"fuse_unk": true, "byte_fallback": true},
  "normalizer": null,
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "@scheme@",
                    "split": false},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": @stripped@, "stop": 0}]}})";

constexpr std::string_view kGemma = R"({
  "model": {"unk_token": "@unknown@", "fuse_unk": true, "byte_fallback": true},
  "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
  "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                    "invert": false},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}]}})";

constexpr std::string_view kEnd = "<|endoftext|>";

const std::vector<RebuiltClass>& rebuilt_classes() {
  static const std::vector<RebuiltClass> classes = {
      {"CodeGenTokenizer", kGpt2, {{"bos_token", kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}}},
      {"GPT2Tokenizer", kGpt2, {{"bos_token", kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}}},
      {.name = "GPTNeoXTokenizer",
       .parts = kGptNeoX,
       .tokens = {{"bos_token", kEnd},
                  {"eos_token", kEnd},
                  {"unk_token", kEnd},
                  {"pad_token", "<|padding|>"}},
       .takes_post_processor = false},
      {"GemmaTokenizer",
       kGemma,
       {{"bos_token", "<bos>"},
        {"eos_token", "<eos>"},
        {"unk_token", "<unk>"},
        {"pad_token", "<pad>"},
        {"mask_token", "<mask>"}}},
      {.name = "LlamaTokenizer",
       .parts = kLlama,
       .tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}},
       .adds_prefix_space = true},
      {.name = "Qwen2Tokenizer",
       .parts = kQwen2,
       .tokens = {{"eos_token", kEnd}, {"unk_token", kEnd}, {"pad_token", kEnd}},
       .resets_special = true}};
  return classes;
}

void replace(std::string& text, std::string_view word, const std::string& by) {
  const std::size_t at = text.find(word);
  if (at != std::string::npos) text.replace(at, word.size(), by);
}

}  // namespace

const RebuiltClass& rebuilt_class(std::string_view name) {
  const std::vector<RebuiltClass>& classes = rebuilt_classes();
  return *std::find_if(classes.begin(), classes.end(),
                       [&](const RebuiltClass& of) { return of.name == name; });
}

void rebuild(const RebuiltClass& by, const TokenizerSettings& settings, const std::string& unknown,
             Json& document) {
  const bool prefix = settings["add_prefix_space"].flag_or(by.adds_prefix_space);
  const bool is_legacy = settings["legacy"].flag_or(false);
  std::string text(by.parts);
  replace(text, "@prefix@", prefix ? "true" : "false");
  replace(text, "@scheme@", !prefix ? "never" : is_legacy ? "always" : "first");
  replace(text, "@stripped@", prefix ? "1" : "0");
  const Json parts = parse_strict_json(text, std::string(by.name));
  for (const char* part : {"normalizer", "pre_tokenizer", "decoder"})
    document[part] = parts.at(part);
  if (!by.takes_post_processor) document["post_processor"] = nullptr;
  Json model = parts.at("model");
  for (const char* kept : {"type", "vocab", "merges"}) {
    if (document["model"].contains(kept)) model[kept] = std::move(document["model"][kept]);
  }
  if (model.contains("unk_token")) {
    if (!model["vocab"].contains(unknown)) {
      JsonField::refuse_at(settings.class_where(),
                           "a " + std::string(by.name) + " whose unknown token '" + unknown +
                               "' is not in the vocabulary,",
                           "name one of its tokens as unk_token in tokenizer_config.json, or "
                           "another tokenizer_class");
    }
    model["unk_token"] = unknown;
  }
  document["model"] = std::move(model);
}

}  // namespace sluice::data
