#include "data/row_tokens.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "data/own_chat_template.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

using Ids = std::vector<std::int32_t>;
using Numbers = std::vector<std::int64_t>;

constexpr auto kIgnored = static_cast<std::int32_t>(kIgnoredLabel);
// Bytes that are looked through again and again, to find out which tokens are whose, in a
// conversation whose turns are not tokens apart.
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

// Attention is causal: tokens behind the last that is seen, or counted, change nothing.
void cut_padding(const Numbers& mask, Sequence& row) {
  std::size_t size = mask.size();
  while (size > 1 && mask[size - 1] == 0 && row.labels[size - 1] == kIgnored) --size;
  row.ids.resize(size);
  row.labels.resize(size);
  if (!row.positions.empty()) row.positions.resize(size);
  const auto end = mask.begin() + static_cast<std::ptrdiff_t>(size);
  // A row of padding alone has nothing to see; it has no label either.
  const bool sees_all = std::find(mask.begin(), end, 0) == end || (size == 1 && mask[0] == 0);
  if (!sees_all) row.mask.assign(mask.begin(), end);
}

// Fields that are as long as the row has tokens, as it was written.
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

// The end of a text's prefix in the tokens of the whole: so many tokens are all of the prefix, and
// whether the next is of both.
struct Border {
  std::size_t tokens = 0;
  bool is_within_token = false;
};

// The tokens of both start alike. Where they part, since a text that ends is split otherwise than
// one that goes on, those of the whole stand for the rest of the prefix that give the same text.
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

// The tokens of `ids`, those of `text`, that stand for [begin, end) of it.
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

// Labels of what the assistant says, -100 elsewhere. Turns start with a special token in nearly
// every format, so their tokens are found turn by turn; where that does not give the tokens of the
// whole text, from its start.
Ids assistant_labels(const TextTokens& tokens, const std::vector<Turn>& turns, const Ids& ids) {
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
      const Turn& turn = turns[i];
      if (turn.begin < turn.end)
        count_span(tokens, turn.text, of_turns[i], turn.begin, turn.end, first[i], labels);
    }
    return labels;
  }
  const std::string text = joined(turns);
  if (text.size() * turns.size() > kMaxRepeatedBytes) {
    refuse_row("the conversation has " +
                   counted(static_cast<std::int64_t>(turns.size()), "message") +
                   ", too many to say which tokens are the assistant's with this tokenizer",
               "make several rows of it, or give input_ids and labels");
  }
  std::size_t offset = 0;
  for (const Turn& turn : turns) {
    if (turn.begin < turn.end)
      count_span(tokens, text, ids, offset + turn.begin, offset + turn.end, 0, labels);
    offset += turn.text.size();
  }
  return labels;
}

const Speech& sound(const Speech& speech, const char* field) {
  if (!speech.wrong.empty())
    refuse_row("'" + std::string(field) + "': " + speech.wrong,
               std::string(field) == "messages"
                   ? "messages are a list of {\"role\": \"user\", \"content\": \"...\"}"
                   : "it is a text, or a list of {\"role\": \"user\", \"content\": \"...\"}");
  return speech;
}

}  // namespace

Sequence RowTokens::sequence(JsonlRow row) const {
  Sequence made;
  if (!options_.has_tokens) {
    made.fields = std::move(row.values);
    return made;
  }
  if (row.input_ids) {
    made = of_ids(row);
  } else {
    if (row.labels) refuse_row("'labels' without 'input_ids'", "labels stand for ids one by one");
    if (row.text) {
      made.ids = options_.tokens->encode(*row.text, true);
      made.labels = made.ids;
    } else if (row.messages) {
      made = of_conversation(row);
    } else if (row.prompt && row.completion) {
      made = of_completion(row);
    } else {
      refuse_row("the row has none of 'text', 'input_ids', 'messages', 'prompt' with 'completion'",
                 "give it one of them");
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

Sequence RowTokens::of_conversation(const JsonlRow& row) const {
  const Speech& speech = sound(*row.messages, "messages");
  const std::vector<Turn> turns = chat().turns(*speech.messages, false);
  Sequence made;
  made.ids = options_.tokens->encode(joined(turns), false);
  made.labels =
      options_.assistant_only_loss ? assistant_labels(*options_.tokens, turns, made.ids) : made.ids;
  return made;
}

Sequence RowTokens::of_completion(const JsonlRow& row) const {
  const Speech& prompt = sound(*row.prompt, "prompt");
  const Speech& completion = sound(*row.completion, "completion");
  if (prompt.text.has_value() != completion.text.has_value()) {
    refuse_row("of 'prompt' and 'completion' one is a text, the other a list of messages",
               "make both the same");
  }
  if (!prompt.text) return of_spoken_completion(prompt, completion);
  const TextTokens& tokens = *options_.tokens;
  Sequence made;
  made.ids = tokens.encode(*prompt.text + *completion.text, true);
  Ids beginning = tokens.encode(*prompt.text, true);
  if (!tokens.is_bytes()) beginning.resize(beginning.size() - tokens.tokenizer().suffix().size());
  const std::size_t given = border_of(tokens, beginning, made.ids).tokens;
  if (const auto end = tokens.end_id(); end && (made.ids.empty() || made.ids.back() != *end))
    made.ids.push_back(*end);
  made.labels = made.ids;
  std::fill_n(made.labels.begin(), given, kIgnored);
  return made;
}

Sequence RowTokens::of_spoken_completion(const Speech& prompt, const Speech& completion) const {
  std::vector<Message> messages = *prompt.messages;
  const std::size_t given = messages.size();
  messages.insert(messages.end(), completion.messages->begin(), completion.messages->end());
  if (given == 0 || given == messages.size())
    refuse_row("'prompt' or 'completion' has no messages", "give both at least one");
  const TextTokens& tokens = *options_.tokens;
  const std::vector<Turn> turns = chat().turns(messages, false);
  Sequence made;
  made.ids = tokens.encode(joined(turns), false);
  made.labels = options_.assistant_only_loss ? assistant_labels(tokens, turns, made.ids) : made.ids;
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

// Checks ids of a tokenizer, which may have special tokens that the model has not.
void RowTokens::check_tokens(const Ids& ids) const {
  if (ids.empty()) refuse_row("the row has no tokens", "remove the line");
  for (const std::int32_t id : ids) {
    if (id < options_.vocab_size) continue;
    refuse_row(formatted("the token '{}', id {}, is outside of the vocabulary of {}",
                         options_.tokens->tokenizer().token_of(id), id, options_.vocab_size),
               "the model has no embedding for it: take it out of the text");
  }
}

const ChatFormat& RowTokens::chat() const {
  const std::lock_guard lock(choosing_);
  if (!chat_) {
    chat_ = std::make_unique<const ChatFormat>(options_.chat_template, *options_.tokens,
                                               options_.model_family);
    options_.tokens->warn(
        own_template_warning(options_.tokens->file(), chat_->format(), chat_->marks_are_tokens()));
  }
  return *chat_;
}

}  // namespace sluice::data
