#include "data/tokenizer/tokenizer_parts.h"

#include <utility>

#include "base/format.h"
#include "base/strict_json.h"
#include "data/tokenizer/declared_tokens.h"
#include "data/tokenizer/rebuilt_class.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

void require_bpe(const JsonField& model) {
  const JsonField type = model["type"];
  const std::string name =
      type.is_null() && model["merges"].json().is_array() ? "BPE" : model.type();
  if (name != "BPE") type.refuse("the model '" + name + "'");
}

void refuse_lengths(const JsonField& root) {
  for (const char* field : {"truncation", "padding"}) {
    if (root[field].is_null()) continue;
    throw Error(ErrorKind::kInput,
                {.what = std::string(field) + " by the tokenizer itself is not supported",
                 .where = root[field].where(),
                 .remedy = "set it to null: `data.truncate` and `data.pad` decide the lengths"});
  }
}

TokenizerParts parse_file(std::string_view json, const std::string& file_name) {
  TokenizerParts parts{.file = file_name, .document = parse_strict_json(json, file_name)};
  const JsonField root(parts.document, parts.file, "");
  if (!parts.document.is_object()) root.malformed("an object");
  const JsonField version = root["version"];
  if (!version.is_null() && version.text() != "1.0")
    version.refuse("the version '" + version.text() + "'");
  require_bpe(root["model"]);
  refuse_lengths(root);
  return parts;
}

void refuse_class(const ChosenClass& chosen, const TokenizerSettings& settings) {
  JsonField::refuse_at(
      settings.class_where(), "the tokenizer class '" + chosen.name + "' of transformers",
      chosen.is_forced
          ? "name a directory that holds tokenizer.json alone to have its tokens"
          : "to have the tokens of tokenizer.json, there and here, write \"tokenizer_class\": "
            "\"PreTrainedTokenizerFast\" in tokenizer_config.json");
}

// With `has_file_tokens`, the first batch comes from tokenizer.json.
std::string digest_of(const TokenDeclarations& added, bool has_file_tokens,
                      const std::string& class_name, const TokenizerSettings& settings) {
  std::string text = class_name;
  if (!class_name.empty()) {
    for (const char* key : {"add_prefix_space", "legacy"})
      text += " " + settings[key].json().dump();
  }
  if (added.split_special) text += " split";
  for (std::size_t i = has_file_tokens ? 1 : 0; i < added.batches.size(); ++i) {
    for (const AddedToken& token : added.batches[i]) {
      text += formatted(" {}:{}:", token.content.size(), token.content);
      for (const bool flag : {token.single_word, token.strip_left, token.strip_right,
                              token.normalized, token.special})
        text += flag ? '1' : '0';
    }
  }
  return text;
}

}  // namespace

TokenizerParts parts_of_file(std::string_view json, const std::string& file_name) {
  TokenizerParts parts = parse_file(json, file_name);
  const JsonField root(parts.document, parts.file, "");
  parts.added.batches = {tokens_of_file(root["added_tokens"])};
  return parts;
}

TokenizerParts parts_of_directory(const TokenizerTexts& texts) {
  TokenizerParts parts = parse_file(texts.tokenizer, texts.file);
  const TokenizerSettings settings(texts);
  const bool has_byte_level = texts.tokenizer.find("\"ByteLevel\"") != std::string::npos;
  const ChosenClass chosen = settings.tokenizer_class(has_byte_level);
  if (class_kind(chosen.name) == ClassKind::kOther) refuse_class(chosen, settings);
  const RebuiltClass* rebuilt = chosen.name.empty() ? nullptr : &rebuilt_class(chosen.name);

  const JsonField root(parts.document, parts.file, "");
  const JsonField file_tokens = root["added_tokens"];
  DeclaredTokens declared =
      declared_tokens(file_tokens, root["model"]["vocab"].json(), settings, rebuilt);
  parts.beside =
      digest_of(declared.added, !rebuilt && !file_tokens.json().empty(), chosen.name, settings);
  parts.added = std::move(declared.added);
  parts.begin = std::move(declared.begin);
  parts.end = std::move(declared.end);
  if (rebuilt) rebuild(*rebuilt, settings, declared.unknown, parts.document);
  return parts;
}

}  // namespace sluice::data
