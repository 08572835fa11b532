#include "data/tokenizer/tokenizer_settings.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/file.h"
#include "base/strict_json.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{128} << 20;

enum class SettingUse {
  kRead,      // applied as in transformers
  kHarmless,  // no effect beside a tokenizer.json
  kRefused    // may change ids; rejected unless null, false or empty
};
struct KnownSetting {
  std::string_view key;
  SettingUse use;
};
// Keys of transformers (tests/oracle/check_tokenizer_files.py).
constexpr KnownSetting kSettings[] = {
    {"_commit_hash", SettingUse::kHarmless},
    {"_json_padding", SettingUse::kRefused},
    {"_json_truncation", SettingUse::kRefused},
    {"_spm_precompiled_charsmap", SettingUse::kHarmless},
    {"add_bos_token", SettingUse::kHarmless},
    {"add_eos_token", SettingUse::kHarmless},
    {"add_prefix_space", SettingUse::kRead},
    {"added_tokens_decoder", SettingUse::kRead},
    {"additional_special_tokens", SettingUse::kRead},
    {"auto_map", SettingUse::kRead},
    {"backend", SettingUse::kHarmless},
    {"bos_token", SettingUse::kRead},
    {"cache_dir", SettingUse::kHarmless},
    {"chat_control_tokens", SettingUse::kHarmless},
    {"chat_template", SettingUse::kRead},
    {"clean_up_tokenization_spaces", SettingUse::kHarmless},
    {"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
     SettingUse::kHarmless},
    {"cls_token", SettingUse::kRead},
    {"eos_token", SettingUse::kRead},
    {"errors", SettingUse::kHarmless},
    {"extra_special_tokens", SettingUse::kRead},
    {"fast_tokenizer_files", SettingUse::kRefused},
    {"files_loaded", SettingUse::kHarmless},
    {"fix_mistral_regex", SettingUse::kRefused},
    {"gguf_file", SettingUse::kRefused},
    {"init_inputs", SettingUse::kRefused},
    {"is_local", SettingUse::kHarmless},
    {"legacy", SettingUse::kRead},
    {"local_files_only", SettingUse::kHarmless},
    {"mask_token", SettingUse::kRead},
    {"max_len", SettingUse::kHarmless},
    {"max_length", SettingUse::kHarmless},
    {"merges", SettingUse::kHarmless},
    {"merges_file", SettingUse::kHarmless},
    {"model_input_names", SettingUse::kHarmless},
    {"model_max_length", SettingUse::kHarmless},
    {"model_specific_special_tokens", SettingUse::kRead},
    {"name_or_path", SettingUse::kHarmless},
    {"pad_to_multiple_of", SettingUse::kHarmless},
    {"pad_token", SettingUse::kRead},
    {"pad_token_type_id", SettingUse::kHarmless},
    {"padding_side", SettingUse::kHarmless},
    {"post_processor", SettingUse::kRefused},
    {"processor_class", SettingUse::kHarmless},
    {"response_schema", SettingUse::kHarmless},
    {"response_template", SettingUse::kHarmless},
    {"return_token_type_ids", SettingUse::kHarmless},
    {"revision", SettingUse::kHarmless},
    {"sep_token", SettingUse::kRead},
    {"split_special_tokens", SettingUse::kRead},
    {"stride", SettingUse::kHarmless},
    {"token", SettingUse::kHarmless},
    {"tokenizer", SettingUse::kHarmless},
    {"tokenizer_class", SettingUse::kRead},
    {"tokenizer_file", SettingUse::kHarmless},
    {"tokenizer_object", SettingUse::kRefused},
    {"tokenizer_padding", SettingUse::kRefused},
    {"tokenizer_truncation", SettingUse::kRefused},
    {"trim_offsets", SettingUse::kHarmless},
    {"truncation_side", SettingUse::kHarmless},
    {"truncation_strategy", SettingUse::kHarmless},
    {"trust_remote_code", SettingUse::kRefused},
    {"unk_id", SettingUse::kHarmless},
    {"unk_token", SettingUse::kRead},
    {"use_default_system_prompt", SettingUse::kHarmless},
    {"verbose", SettingUse::kHarmless},
    {"vocab", SettingUse::kHarmless},
    {"vocab_file", SettingUse::kHarmless},
};

bool is_nothing(const Json& value) {
  return value.empty() || value == Json(false) || value == Json("");
}

std::optional<std::string> read_if_there(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return std::nullopt;
  return read_text(path, kMaxFileBytes);
}

std::string text_in(const JsonField& object, std::string_view key) {
  if (object.is_null()) return {};
  const JsonField field = object[key];
  return field.json().is_string() ? field.text() : std::string();
}

}  // namespace

TokenizerTexts read_tokenizer_texts(const std::string& file) {
  const std::string folder = parent_directory(file) + "/";
  return {.file = file,
          .tokenizer = read_text(file, kMaxFileBytes),
          .tokenizer_config = read_if_there(folder + "tokenizer_config.json"),
          .special_tokens_map = read_if_there(folder + "special_tokens_map.json"),
          .added_tokens = read_if_there(folder + "added_tokens.json"),
          .config = read_if_there(folder + "config.json")};
}

TokenizerSettings::TokenizerSettings(const TokenizerTexts& texts)
    : folder_(parent_directory(texts.file) + "/"),
      config_(parse(texts.tokenizer_config, "tokenizer_config.json")),
      map_(parse(texts.special_tokens_map, "special_tokens_map.json")),
      added_(parse(texts.added_tokens, "added_tokens.json")),
      model_(parse(texts.config, "config.json")) {
  if (!config_.is_null()) {
    for (auto& [key, field] : config_.members()) settings_.emplace(key, field);
  }
  // Beside this newer key, transformers ignores special_tokens_map.json and added_tokens.json.
  if (has("added_tokens_decoder")) map_ = added_ = parse(std::nullopt, "");
  if (!map_.is_null()) {
    for (auto& [key, field] : map_.members()) settings_.insert_or_assign(key, field);
  }
  refuse_unsupported_settings();
}

JsonField TokenizerSettings::parse(const std::optional<std::string>& text,
                                   const std::string& name) {
  auto file = std::make_unique<File>();
  file->path = folder_ + name;
  if (text) file->value = parse_strict_json(*text, file->path);
  const JsonField field(file->value, file->path, "");
  if (text && !file->value.is_object()) field.malformed("an object");
  files_.push_back(std::move(file));
  return field;
}

JsonField TokenizerSettings::operator[](const std::string& key) const {
  const auto it = settings_.find(key);
  if (it != settings_.end()) return it->second;
  static const Json none;
  return {none, folder_, key};
}

void TokenizerSettings::refuse_unsupported_settings() const {
  for (const KnownSetting& setting : kSettings) {
    const JsonField field = (*this)[std::string(setting.key)];
    if (setting.use != SettingUse::kRefused || is_nothing(field.json())) continue;
    if (setting.key == "fast_tokenizer_files" &&
        field.json() == Json(std::vector<std::string>{"tokenizer.json"}))
      continue;
    field.refuse("the setting '" + std::string(setting.key) +
                     "', by which transformers may make other tokens,",
                 "remove it where it changes nothing");
  }
  const JsonField own_code = (*this)["auto_map"];
  if (own_code.json().is_array() ||
      (own_code.json().is_object() && !is_nothing(own_code["AutoTokenizer"].json()))) {
    own_code.refuse("a tokenizer with its own code",
                    "remove the setting if tokenizer.json describes the whole tokenizer");
  }
  for (const char* key : {"add_bos_token", "add_eos_token"}) {
    if (!map_.is_null() && map_.json().contains(key))
      map_[key].refuse(
          "the setting '" + std::string(key) + "'",
          "remove it: the post_processor of tokenizer.json sets what starts and ends a text");
  }
}

ChosenClass TokenizerSettings::tokenizer_class(bool has_byte_level) const {
  return choose_class({.tokenizer_class = text_in(config_, "tokenizer_class"),
                       .model_tokenizer_class = text_in(model_, "tokenizer_class"),
                       .model_type = text_in(model_, "model_type"),
                       .model_name = text_in(model_, "model_name"),
                       .has_byte_level = has_byte_level});
}

std::string TokenizerSettings::class_where() const {
  for (const JsonField* file : {&config_, &model_}) {
    if (!text_in(*file, "tokenizer_class").empty()) return (*file)["tokenizer_class"].where();
  }
  return model_["model_type"].where();
}

}  // namespace sluice::data
