#include "data/row_tokens.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "data/data_words.h"
#include "data/own_chat_template.h"
#include "data/row_shape.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

using Ids = std::vector<std::int32_t>;
using Numbers = std::vector<std::int64_t>;

constexpr auto kIgnored = static_cast<std::int32_t>(kIgnoredLabel);
// Limits how much text of long conversations is tokenized repeatedly.
constexpr std::size_t kMaxRepeatedBytes = std::size_t{64} << 20;

[[noreturn]] void refuse_row(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kInput, {.what = what, .remedy = remedy});
}

Ids narrowed(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }

void require_size(const char* field, std::size_t size, std::size_t num_ids) {
  if (size == num_ids) return;
  refuse_row("'" + std::string(field) + "' has " +
                 counted(static_cast<std::int64_t>(size), "value") + " for " +
                 counted(static_cast<std::int64_t>(num_ids), "token"),
             "give one for each token, or leave it out");
}

void check_mask(const Numbers& mask, std::size_t num_ids) {
  require_size("attention_mask", mask.size(), num_ids);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0 || mask[i] == 1) continue;
    refuse_row(formatted("attention_mask[{}] = {} is neither 0 nor 1", i, mask[i]),
               "1 stands for a token, 0 for padding");
  }
}

// Removes padding. Attention is causal, so masked tokens at the end without counted labels have no
// effect.
void cut_padding(const Numbers& mask, Sequence& row) {
  std::size_t size = mask.size();
  while (size > 1 && mask[size - 1] == 0 && row.labels[size - 1] == kIgnored) --size;
  row.ids.resize(size);
  row.labels.resize(size);
  if (!row.positions.empty()) row.positions.resize(size);
  const auto end = mask.begin() + static_cast<std::ptrdiff_t>(size);
  // If one masked token remains, the row was only padding and needs no mask.
  const bool sees_all = std::find(mask.begin(), end, 0) == end || (size == 1 && mask[0] == 0);
  if (!sees_all) row.mask.assign(mask.begin(), end);
}

// `num_ids` is the row's length before padding was removed.
void check_lengths(const std::vector<FieldOption>& fields, const std::vector<FieldValue>& values,
                   std::size_t num_ids) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    for (std::size_t d = 0; d < fields[i].sizes.size(); ++d) {
      const auto size = static_cast<std::size_t>(values[i].sizes[d]);
      if (fields[i].sizes[d] != kRowTokens || size == num_ids) continue;
      refuse_row(formatted("'{}' has {} in its dimension {} for {}", fields[i].name, size, d + 1,
                           counted(static_cast<std::int64_t>(num_ids), "token")),
                 "give one for each token");
    }
  }
}

// Where a prefix of a text ends among the tokens of the whole text. `tokens` counts the tokens
// before that place.
struct Border {
  std::size_t tokens = 0;
  bool is_within_token = false;
};

// The last tokens of a prefix (`beginning`) may differ from those of the text (`whole`). From the
// first difference on, searches for tokens of `whole` that decode to the rest of the prefix.
Border border_of(const TextTokens& tokens, const Ids& beginning, const Ids& whole) {
  constexpr std::ptrdiff_t kMaxRest = 64;
  const auto [rest, parting] =
      std::mismatch(beginning.begin(), beginning.end(), whole.begin(), whole.end());
  const auto alike = static_cast<std::size_t>(parting - whole.begin());
  if (rest == beginning.end()) return {alike, false};
  if (tokens.is_bytes() || beginning.end() - rest > kMaxRest) return {alike, true};
  const Tokenizer& tokenizer = tokens.tokenizer();
  const std::string text = tokenizer.decode({rest, beginning.end()});
  std::string found;
  for (auto end = parting; end != whole.end() && found.size() < text.size();) {
    found = tokenizer.decode({parting, ++end});
    if (found == text) return {static_cast<std::size_t>(end - whole.begin()), false};
  }
  return {alike, true};
}

std::string joined(const std::vector<Turn>& turns) {
  std::string text;
  for (const Turn& turn : turns) text += turn.text;
  return text;
}

// Sets labels for bytes [begin, end) of `text`, whose tokens are `ids`.
void count_span(const TextTokens& tokens, std::string_view text, const Ids& ids, std::size_t begin,
                std::size_t end, std::size_t first_token, Ids& labels) {
  const std::size_t from =
      border_of(tokens, tokens.encode(text.substr(0, begin), false), ids).tokens;
  std::size_t to = ids.size();
  if (end < text.size()) {
    const Border border = border_of(tokens, tokens.encode(text.substr(0, end), false), ids);
    to = std::min(ids.size(), border.tokens + (border.is_within_token ? 1 : 0));
  }
  for (std::size_t i = from; i < to; ++i) labels[first_token + i] = ids[i];
}

std::pair<std::size_t, std::size_t> counted_part(const Turn& turn, bool assistant_only) {
  if (!turn.counts) return {0, 0};
  return assistant_only ? std::pair(turn.begin, turn.end)
                        : std::pair(std::size_t{0}, turn.text.size());
}

// Returns ids where the loss counts the text, and -100 elsewhere. If tokenizing each turn
// separately gives the same ids, turns determine the labels. Otherwise the counted parts are
// located in the whole text.
Ids labels_of(const TextTokens& tokens, const std::vector<Turn>& turns, const Ids& ids,
              bool assistant_only) {
  const auto counts = [](const Turn& turn) { return turn.counts; };
  if (!assistant_only && std::all_of(turns.begin(), turns.end(), counts)) return ids;
  Ids apart, labels(ids.size(), kIgnored);
  std::vector<std::size_t> first;
  std::vector<Ids> of_turns;
  for (const Turn& turn : turns) {
    first.push_back(apart.size());
    of_turns.push_back(tokens.encode(turn.text, false));
    apart.insert(apart.end(), of_turns.back().begin(), of_turns.back().end());
  }
  if (apart == ids) {
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const auto [begin, end] = counted_part(turns[i], assistant_only);
      if (begin < end) count_span(tokens, turns[i].text, of_turns[i], begin, end, first[i], labels);
    }
    return labels;
  }
  const std::string text = joined(turns);
  if (text.size() * turns.size() > kMaxRepeatedBytes) {
    refuse_row("the conversation has " +
                   counted(static_cast<std::int64_t>(turns.size()), "message") +
                   ", too many to find the tokens of each with this tokenizer",
               "make several rows of it, or give input_ids and labels");
  }
  std::size_t offset = 0;
  for (const Turn& turn : turns) {
    const auto [begin, end] = counted_part(turn, assistant_only);
    if (begin < end) count_span(tokens, text, ids, offset + begin, offset + end, 0, labels);
    offset += turn.text.size();
  }
  return labels;
}

void require_sound_speech(const Speech& speech, const std::string& field, bool assistant_only) {
  if (!speech.wrong.empty()) {
    const char* const usual =
        field == "messages" ? "messages are a list of {\"role\": \"user\", \"content\": \"...\"}"
        : field == "conversations"
            ? "conversations are a list of {\"from\": \"human\", \"value\": \"...\"}"
            : "it is a text, or a list of {\"role\": \"user\", \"content\": \"...\"}";
    refuse_row("'" + field + "': " + speech.wrong, speech.remedy.empty() ? usual : speech.remedy);
  }
  if (!speech.messages) return;
  require_known_roles(*speech.messages);
  for (std::size_t i = 0; assistant_only && i < speech.messages->size(); ++i) {
    const Message& message = (*speech.messages)[i];
    if (message.role == "assistant" || !message.counts.value_or(false)) continue;
    refuse_row(
        formatted(
            "'{}': the 'weight' or 'train' of message {} makes it count, but its role is '{}'",
            field, i + 1, message.role),
        "only the assistant's messages count: remove the field, or set `data.assistant_only_loss` "
        "= false");
  }
}

void require_ids_beside(const JsonlRow& row) {
  if (row.input_ids) return;
  const auto refuse = [](bool has, const std::string& name) {
    if (has)
      refuse_row("the row has '" + name + "' without 'input_ids'",
                 "give the ids that they belong to");
  };
  refuse(row.labels.has_value(), "labels");
  refuse(row.attention_mask.has_value(), "attention_mask");
  refuse(row.position_ids.has_value(), "position_ids");
}

void require_no_system(const JsonlRow& row) {
  const bool is_read = row.shape == RowShape::kSharegpt || row.shape == RowShape::kAlpaca;
  if (is_read || !row.system || (row.system->text && row.system->text->empty())) return;
  refuse_row(
      "sluice does not act on the field 'system' of a row of " + std::string(name_of(row.shape)),
      "write it as the first message, of role 'system'");
}

std::string advice_on(const std::vector<std::string>& fields) {
  static const std::vector<std::string> known = {"text",          "input_ids",   "messages",
                                                 "prompt",        "completion",  "response",
                                                 "conversations", "instruction", "output"};
  for (const std::string& field : fields) {
    const std::string near = nearest_name(field, known);
    if (!near.empty() && near != field)
      return formatted("did you mean '{}'? The row has '{}'", near, field);
  }
  return fields.empty() ? "give it one of them"
                        : "give it one of them; the row has " + join(fields, ", ");
}

}  // namespace

Sequence RowTokens::sequence(JsonlRow row) const {
  Sequence made;
  if (!options_.has_tokens) {
    note_unread(row, {});
    made.fields = std::move(row.values);
    return made;
  }
  require_sound(row);
  if (row.input_ids) {
    made = of_ids(row);
  } else {
    if (row.text) {
      made.ids = options_.tokens->encode(*row.text, true);
      options_.tokens->end_text(made.ids, options_.append_eos);
      made.labels = made.ids;
    } else if (row.messages) {
      made = of_conversation(row);
    } else if (row.shape == RowShape::kAlpaca && !has_chat()) {
      const AlpacaText text = alpaca_text(row);
      made = of_completion(text.prompt, text.answer);
    } else if (row.prompt->text) {
      made = of_completion(*row.prompt->text, *row.completion->text);
    } else {
      made = of_spoken_completion(*row.prompt, *row.completion);
    }
    check_tokens(made.ids);
  }
  check_lengths(options_.fields, row.values,
                row.input_ids ? row.input_ids->size() : made.ids.size());
  made.fields = std::move(row.values);
  const auto length = static_cast<std::size_t>(options_.seq_len);
  if (made.ids.size() <= length) return made;
  if (!options_.truncate) {
    refuse_row(
        formatted("the row has {} tokens, more than `seq_len` = {}", made.ids.size(), length),
        "raise `seq_len` or set `data.truncate` = true");
  }
  made.ids.resize(length);
  made.labels.resize(length);
  if (!made.mask.empty()) made.mask.resize(length);
  if (!made.positions.empty()) made.positions.resize(length);
  return made;
}

void RowTokens::require_sound(const JsonlRow& row) const {
  const std::vector<std::string>& used = row.used;
  // Rows in preference format may also have a prompt and messages.
  const bool is_preference = std::count(row.fields.begin(), row.fields.end(), "chosen") > 0;
  if (used.empty() || is_preference) {
    const FieldRefusal shape = foreign_format_refusal(row.fields);
    if (!shape.what.empty()) refuse_row(shape.what, shape.remedy);
  }
  for (const UnreadField& field : row.unread) {
    const FieldRefusal refusal = refusal_of_row_field(field, used);
    if (!refusal.what.empty()) refuse_row(refusal.what, refusal.remedy);
  }
  if (used.empty()) {
    require_ids_beside(row);
    refuse_row(
        "the row has none of 'text', 'input_ids', 'messages', 'prompt' with 'completion', "
        "'conversations', 'instruction' with 'output'",
        advice_on(row.fields));
  }
  require_ids_beside(row);
  require_no_system(row);
  if (row.shape == RowShape::kMessages || row.shape == RowShape::kSharegpt)
    require_sound_speech(*row.messages, used.front(), options_.assistant_only_loss);
  if (row.shape == RowShape::kCompletion || row.shape == RowShape::kAlpaca) {
    require_sound_speech(*row.prompt, used[0], options_.assistant_only_loss);
    require_sound_speech(*row.completion, used[1], options_.assistant_only_loss);
    if (row.prompt->text.has_value() != row.completion->text.has_value()) {
      refuse_row("of 'prompt' and 'completion' only one is a list of messages",
                 "write both as texts or both as messages");
    }
    if (row.prompt->messages &&
        (row.prompt->messages->empty() || row.completion->messages->empty()))
      refuse_row("'prompt' or 'completion' has no messages", "give both at least one");
  }
  if (row.messages && row.messages->messages->empty() && !row.input_ids && !row.text)
    refuse_row("the row has no messages", "remove the line");
  note_unread(row, used);
}

void RowTokens::require_sound_turns(const JsonlRow& row) const {
  require_sound(row);
  if (row.input_ids || row.text || options_.chat_template == ChatTemplate::kAuto) return;
  std::vector<Message> messages;
  for (const std::optional<Speech>* speech : {&row.messages, &row.prompt, &row.completion}) {
    if (!*speech || !(*speech)->messages || (row.messages && speech != &row.messages)) continue;
    messages.insert(messages.end(), (*speech)->messages->begin(), (*speech)->messages->end());
  }
  if (!messages.empty()) chat().turns(messages, false);
}

void RowTokens::note_unread(const JsonlRow& row, const std::vector<std::string>& used) const {
  const auto is_asked = [&](const std::string& name) {
    return std::any_of(options_.fields.begin(), options_.fields.end(),
                       [&](const FieldOption& field) { return field.name == name; });
  };
  const std::lock_guard lock(noting_);
  for (const std::string& name : row.fields) {
    if (unread_.size() >= kMaxNamedFields) return;
    if (std::find(used.begin(), used.end(), name) == used.end() && !is_asked(name))
      unread_.insert(name);
  }
}

void RowTokens::warn_of_unread() const {
  const std::lock_guard lock(noting_);
  if (unread_.empty()) return;
  options_.tokens->warn(
      formatted("fields of rows that are not read: {}",
                join(std::vector<std::string>(unread_.begin(), unread_.end()), ", ")));
}

Sequence RowTokens::of_ids(JsonlRow& row) const {
  const Numbers& ids = *row.input_ids;
  if (ids.empty()) refuse_row("the row has no tokens", "remove the line");
  if (row.attention_mask) check_mask(*row.attention_mask, ids.size());
  if (!row.labels) {
    row.labels = ids;
    for (std::size_t i = 0; row.attention_mask && i < ids.size(); ++i) {
      if ((*row.attention_mask)[i] == 0) (*row.labels)[i] = kIgnoredLabel;
    }
  }
  check_ids(ids, *row.labels);
  Sequence made{narrowed(ids), narrowed(*row.labels), {}, {}};
  if (row.position_ids) {
    require_size("position_ids", row.position_ids->size(), ids.size());
    const std::int64_t end =
        options_.max_positions.value_or(std::numeric_limits<std::int32_t>::max());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t position = (*row.position_ids)[i];
      if (position >= 0 && position < end) continue;
      refuse_row(formatted("position_ids[{}] = {} is not one of the model's {} positions", i,
                           position, end),
                 "positions start at 0");
    }
    made.positions = narrowed(*row.position_ids);
    for (std::size_t i = 0; !options_.takes_positions && i < ids.size(); ++i) {
      if (made.positions[i] == static_cast<std::int32_t>(i)) continue;
      refuse_row(formatted("position_ids[{}] = {}, but 'position_ids' is not an input of the model",
                           i, made.positions[i]),
                 "export the model with position_ids, or leave them out");
    }
  }
  if (row.attention_mask) cut_padding(*row.attention_mask, made);
  if (!options_.takes_mask && !made.mask.empty()) {
    refuse_row("'attention_mask' hides tokens, but is not an input of the model",
               "export the model with an attention_mask, or give rows without");
  }
  return made;
}

std::vector<Message> RowTokens::counted_messages(std::vector<Message> messages) const {
  bool is_last = options_.last_only;
  for (auto message = messages.rbegin(); options_.last_only && message != messages.rend();
       ++message) {
    if (!is_last) message->counts = false;
    if (message->role == "assistant") is_last = false;
  }
  return messages;
}

Sequence RowTokens::of_conversation(const JsonlRow& row) const {
  const std::vector<Turn> turns = chat().turns(counted_messages(*row.messages->messages), false);
  Sequence made;
  made.ids = options_.tokens->encode(joined(turns), false);
  made.labels = labels_of(*options_.tokens, turns, made.ids, options_.assistant_only_loss);
  return made;
}

Sequence RowTokens::of_completion(const std::string& prompt, const std::string& completion) const {
  const TextTokens& tokens = *options_.tokens;
  Sequence made;
  made.ids = tokens.encode(prompt + completion, true);
  Ids beginning = tokens.encode(prompt, true);
  if (!tokens.is_bytes()) beginning.resize(beginning.size() - tokens.tokenizer().suffix().size());
  const std::size_t given = border_of(tokens, beginning, made.ids).tokens;
  if (const auto end = tokens.end_id(); end && (made.ids.empty() || made.ids.back() != *end))
    made.ids.push_back(*end);
  made.labels = made.ids;
  if (!options_.counts_prompts) std::fill_n(made.labels.begin(), given, kIgnored);
  return made;
}

Sequence RowTokens::of_spoken_completion(const Speech& prompt, const Speech& completion) const {
  std::vector<Message> messages = *prompt.messages;
  messages.insert(messages.end(), completion.messages->begin(), completion.messages->end());
  const TextTokens& tokens = *options_.tokens;
  const std::vector<Turn> turns = chat().turns(counted_messages(std::move(messages)), false);
  Sequence made;
  made.ids = tokens.encode(joined(turns), false);
  made.labels = labels_of(tokens, turns, made.ids, options_.assistant_only_loss);
  if (options_.counts_prompts) return made;
  const bool is_answer = completion.messages->front().role == "assistant";
  const std::string before = joined(chat().turns(*prompt.messages, is_answer));
  const std::size_t own = border_of(tokens, tokens.encode(before, false), made.ids).tokens;
  std::fill_n(made.labels.begin(), own, kIgnored);
  return made;
}

void RowTokens::check_ids(const Numbers& ids, const Numbers& labels) const {
  if (labels.size() != ids.size()) {
    refuse_row(formatted("{} labels for {} input_ids", labels.size(), ids.size()),
               "labels are aligned with ids; -100 is not counted");
  }
  const auto check = [&](const char* field, std::size_t i, std::int64_t id, std::int64_t below) {
    if (id >= 0 && id < below) return;
    refuse_row(formatted("{}[{}] = {} is outside of the vocabulary of {}", field, i, id, below),
               "were the rows made with another tokenizer?");
  };
  const std::int64_t classes = options_.num_labels > 0 ? options_.num_labels : options_.vocab_size;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check("input_ids", i, ids[i], options_.vocab_size);
    if (labels[i] != kIgnoredLabel) check("labels", i, labels[i], classes);
  }
}

// A tokenizer may have special tokens without an embedding.
void RowTokens::check_tokens(const Ids& ids) const {
  if (ids.empty()) refuse_row("the row has no tokens", "remove the line");
  for (const std::int32_t id : ids) {
    if (id < options_.vocab_size) continue;
    refuse_row(formatted("the token '{}', id {}, is outside of the vocabulary of {}",
                         options_.tokens->tokenizer().token_of(id), id, options_.vocab_size),
               "take it out of the text");
  }
}

const ChatFormat& RowTokens::chat() const {
  const std::lock_guard lock(choosing_);
  if (!chat_) {
    // Report an unreadable tokenizer first.
    options_.tokens->require_fit();
    chat_ = std::make_unique<const ChatFormat>(options_.chat_template, *options_.tokens,
                                               options_.model_family);
    if (options_.chat_template == ChatTemplate::kAuto)
      options_.tokens->note("data.chat_template",
                            detail::word_of(detail::words_of(chat_->format()), chat_->format()));
    options_.tokens->warn(own_template_warning(*options_.tokens, *chat_));
  }
  return *chat_;
}

bool RowTokens::has_chat() const {
  if (options_.chat_template != ChatTemplate::kAuto) return true;
  try {
    chat();
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
  }
  options_.tokens->note("data.chat_template", "none found: the layout of the Alpaca project");
  return false;
}

}  // namespace sluice::data
