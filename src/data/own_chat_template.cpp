#include "data/own_chat_template.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/format.h"
#include "base/strict_json.h"
#include "data/data_words.h"
#include "data/template/chat_messages.h"
#include "data/template/chat_program.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTemplateBytes = std::size_t{16} << 20;

struct KnownTemplate {
  ChatTemplate format;
  std::string_view hash;
};
constexpr std::array<KnownTemplate, 6> kKnownTemplates = {
    {{ChatTemplate::kChatml, "3c3d47c616e4ab6879065804f3f9b26b"},  // OpenHermes 2.5, TRL, ..
                                                                   // OpenHermes 2.5, no prompt.
     {ChatTemplate::kChatml, "e655e4ed52312d5e08fec65cca1e5ee3"},
     // OpenHermes 2.5, with a default system message.
     {ChatTemplate::kChatml, "274a06398f4480d3954d150d60995df7"},
     {ChatTemplate::kLlama3, "6930a9f803d06b86fc1f1a6eaaa2d2db"},   // Llama 3
     {ChatTemplate::kGemma, "1d836a7f25ce30d99454ffc0ca89fe59"},    // Gemma, Gemma 2
     {ChatTemplate::kMistral, "7ee93c26906f8f3483b896f27dfc4e54"}}  // Mistral 7B v0.1, v0.2
};

struct FoundTemplate {
  std::string file, text;
};

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns the chat template, or "default" of a list of named templates.
std::string template_in(const Json& config) {
  const Json& value = config.at("chat_template");
  if (value.is_string()) return value.text();
  const auto text_of = [](const Json& item, const char* key) {
    return item.at(key).is_string() ? item.at(key).text() : std::string();
  };
  if (!value.is_array()) return {};
  for (const Json& item : value.list()) {
    if (text_of(item, "name") == "default") return text_of(item, "template");
  }
  return value.empty() ? std::string() : text_of(value.list().front(), "template");
}

// Searches in transformers' order.
FoundTemplate find_template(const std::string& folder) {
  const std::string alone = folder + "/chat_template.jinja";
  if (is_there(alone)) return {alone, read_text(alone, kMaxTemplateBytes)};
  const std::string config = folder + "/tokenizer_config.json";
  if (is_there(config)) {
    std::string text = template_in(parse_strict_json(read_text(config, kMaxTemplateBytes), config));
    if (!text.empty()) return {config, std::move(text)};
  }
  const std::string further = folder + "/additional_chat_templates";
  return is_there(further) ? FoundTemplate{further, " "} : FoundTemplate{};
}

// Returns conversations that chat templates often render differently: with and without a system
// message, with white space around texts, with thinking, and with other roles.
const std::vector<std::vector<Message>>& compared_conversations() {
  const Message system{"system", "S"}, user{"user", " a \n"}, answer{"assistant", "b"};
  const Message thinking{"assistant", "<think>\nt\n</think>\n\n b \n"}, empty{"assistant", ""};
  static const std::vector<std::vector<Message>> all = {
      {user, answer},
      {system, user, thinking},
      {system, user, thinking, user, empty, user},
      {user, empty, user, thinking, user, answer},
      {user, answer, {"tool", "7"}, {"tool", "8"}, answer},
      {{"developer", "D"}, user, system, answer}};
  return all;
}

// std::nullopt for an error.
template <typename Write>
std::optional<std::string> text_of(Write&& write) {
  try {
    return write();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string written(const jinja::ChatProgram& program, const std::vector<Message>& messages,
                    const TextTokens& tokens) {
  Json list = Json::array();
  for (const Message& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  Json variables{{"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}};
  if (!tokens.begin_token().empty()) variables.add("bos_token", tokens.begin_token());
  if (!tokens.end_token().empty()) variables.add("eos_token", tokens.end_token());
  variables.add("messages", jinja::chat_messages(list));
  return program.render(variables).text;
}

bool writes_the_same(const FoundTemplate& found, const TextTokens& tokens, const ChatFormat& chat) {
  try {
    const jinja::ChatProgram program(found.text, found.file);
    if (program.reads_clock()) return false;
    for (const std::vector<Message>& messages : compared_conversations()) {
      const auto by_template = text_of([&] { return written(program, messages, tokens); });
      const auto by_format = text_of([&] {
        std::string text;
        for (const Turn& turn : chat.turns(messages, false)) text += turn.text;
        return text;
      });
      if (by_template != by_format) return false;
    }
    return true;
  } catch (const Error&) {
    return false;  // the template uses more than ChatProgram supports
  }
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string plain_template(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  text = text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
  std::string plain;
  char quote = 0;
  bool is_code = false, was_space = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (!is_code) {
      plain += c;
      is_code = c == '{' && (next == '{' || next == '%');
    } else if (quote == 0 && kSpaces.find(c) != std::string_view::npos) {
      was_space = true;
    } else if (quote == 0) {
      if (was_space && is_word(plain.back()) && is_word(c)) plain += ' ';
      was_space = false;
      if (c == '\'' || c == '"') quote = std::exchange(c, '\'');
      is_code = c != '}' || (plain.back() != '}' && plain.back() != '%');
      plain += c;
    } else if (c == '\\' && next == 'n') {
      plain += '\n';
      ++i;
    } else if (c == quote) {
      plain += '\'';
      quote = 0;
    } else {
      plain += c;
    }
  }
  return plain;
}

std::string with_usual_variable(const std::string& plain) {
  constexpr std::string_view kBefore = "{%for ", kAfter = " in messages%}", kUsual = "message";
  const std::size_t after = plain.find(kAfter);
  const std::size_t loop = after == std::string::npos ? after : plain.rfind(kBefore, after);
  if (loop == std::string::npos) return plain;
  const std::size_t begin = loop + kBefore.size();
  const std::string name = plain.substr(begin, after - begin);
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_word)) return plain;
  std::string renamed;
  for (std::size_t i = 0; i < plain.size();) {
    std::size_t end = i;
    while (end < plain.size() && is_word(plain[end])) ++end;
    if (end == i) ++end;
    const std::string_view word = std::string_view(plain).substr(i, end - i);
    renamed += word == name ? kUsual : word;
    i = end;
  }
  return renamed;
}

std::string own_template_warning(const TextTokens& tokens, const ChatFormat& chat) {
  if (tokens.file().empty()) return {};
  const ChatTemplate taken = chat.format();
  const FoundTemplate found = find_template(parent_directory(tokens.file()));
  if (found.text.empty()) return {};
  const std::string hash = content_hash(with_usual_variable(plain_template(found.text)));
  const bool is_known =
      std::any_of(kKnownTemplates.begin(), kKnownTemplates.end(), [&](const KnownTemplate& known) {
        return known.format == taken && known.hash == hash &&
               !(taken == ChatTemplate::kMistral && chat.marks_are_tokens());
      });
  if (is_known || writes_the_same(found, tokens, chat)) return {};
  return formatted(
      "{} has its own chat template, which is not used: conversations are written as "
      "`data.chat_template` = \"{}\", and may differ from those of transformers",
      found.file, detail::word_of(detail::words_of(taken), taken));
}

}  // namespace sluice::data
