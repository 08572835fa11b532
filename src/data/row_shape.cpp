#include "data/row_shape.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

std::string text_or_nothing(const std::optional<Speech>& speech) {
  return speech && speech->text ? *speech->text : std::string();
}

void use(JsonlRow& row, RowShape shape, std::vector<std::string> fields) {
  row.shape = shape;
  row.used = std::move(fields);
}

void use_if(bool is_there, const char* field, JsonlRow& row) {
  if (is_there) row.used.emplace_back(field);
}

void add_system(JsonlRow& row, Speech& to) {
  const std::string system = text_or_nothing(row.system);
  use_if(row.system.has_value(), "system", row);
  if (row.system && row.system->messages && to.wrong.empty()) {
    to.wrong = "a list as 'system'";
    to.remedy = "'system' is a text";
  }
  if (system.empty() || !to.messages) return;
  if (!to.messages->empty() && to.messages->front().role == "system") {
    to.wrong = "a system message beside the field 'system'";
    to.remedy = "keep one of them";
    return;
  }
  to.messages->insert(to.messages->begin(), Message{"system", system});
}

// Makes `speech` one message. `field` is its name for errors.
Speech as_message(const std::string& role, const std::string& text, const Speech& speech,
                  const std::string& field) {
  Speech made;
  made.wrong = speech.wrong;
  if (speech.messages && made.wrong.empty()) made.wrong = "a list";
  if (!made.wrong.empty()) made.wrong += " as '" + field + "' of an alpaca row";
  made.remedy = "alpaca's 'instruction', 'input' and 'output' are texts";
  made.messages = {Message{role, text}};
  return made;
}

void use_alpaca(JsonlRow& row) {
  const char* const answer = row.output ? "output" : "response";
  if (!row.output) row.output = row.response;
  use(row, RowShape::kAlpaca, {"instruction", answer});
  std::string asked = text_or_nothing(row.instruction);
  const std::string input = text_or_nothing(row.input);
  if (!input.empty()) asked += (asked.empty() ? "" : "\n") + input;
  row.prompt = as_message("user", asked, *row.instruction, "instruction");
  row.completion = as_message("assistant", text_or_nothing(row.output), *row.output, answer);
  if (row.input) {
    row.used.emplace_back("input");
    if (row.prompt->wrong.empty())
      row.prompt->wrong = as_message("user", "", *row.input, "input").wrong;
  }
  add_system(row, *row.prompt);
}

const std::vector<std::string>& known_field_names() {
  static const std::vector<std::string> names = {
      "text",   "input_ids",  "labels",   "attention_mask", "position_ids", "messages",
      "prompt", "completion", "response", "conversations",  "instruction",  "input",
      "output", "system",     "role",     "content",        "weight",       "train"};
  return names;
}

}  // namespace

void check_field_names(const std::map<std::string, std::string>& names,
                       const std::vector<FieldOption>& others) {
  const auto refuse = [](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, {.what = what, .where = "`data.fields`", .remedy = remedy});
  };
  std::vector<std::string> known = known_field_names();
  for (const FieldOption& field : others) known.push_back(field.name);
  std::map<std::string, std::string> seen;
  for (const auto& [own, name] : names) {
    if (std::find(known.begin(), known.end(), own) == known.end()) {
      const bool is_swapped = std::find(known.begin(), known.end(), name) != known.end();
      refuse("'" + own + "' is no field of a row",
             is_swapped ? formatted("write it the other way: {} = \"{}\"", name, own)
                        : suggest_name(own, known));
    }
    if (name.empty()) refuse("the name for '" + own + "' is empty", "write the name in the rows");
    const auto [first, is_new] = seen.emplace(name, own);
    if (!is_new)
      refuse(formatted("'{}' is the name for both '{}' and '{}'", name, first->second, own),
             "give each field its own");
  }
}

void set_counted_messages(const DataOptions& data, SourceOptions& options) {
  options.assistant_only_loss = data.assistant_only_loss;
  if (data.train_on.empty()) return;
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, {.what = what, .where = "`data.train_on`", .remedy = remedy});
  };
  const std::string& word = data.train_on.front();
  if (data.train_on.size() > 1 || (word != "assistant" && word != "last" && word != "all")) {
    refuse("`data.train_on` = " + join(data.train_on, ", "),
           "write [\"assistant\"], \"last\" or \"all\"; in a row, 'weight' or 'train' of a message "
           "excludes it");
  }
  if (word == "all" && data.assistant_only_loss)
    refuse("`data.train_on` = \"all\" contradicts `data.assistant_only_loss` = true",
           "remove one of them");
  options.assistant_only_loss = word != "all";
  options.last_only = word == "last";
  options.counts_prompts = word == "all";
}

const char* name_of(RowShape shape) {
  switch (shape) {
    case RowShape::kNone:
      return "unknown";
    case RowShape::kIds:
      return "input_ids";
    case RowShape::kText:
      return "text";
    case RowShape::kMessages:
      return "messages";
    case RowShape::kCompletion:
      return "prompt and completion";
    case RowShape::kSharegpt:
      return "sharegpt";
    case RowShape::kAlpaca:
      return "alpaca";
  }
  return "unknown";
}

std::string role_of_sharegpt(const std::string& from) {
  constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
      {"human", "user"},
      {"gpt", "assistant"},
      {"chatgpt", "assistant"},
      {"bing", "assistant"},
      {"bard", "assistant"},
      {"observation", "tool"},
      {"function_response", "tool"}};
  for (const auto& [name, role] : kRoles)
    if (name == from) return std::string(role);
  return from;
}

bool names_a_shape(const std::vector<std::string>& fields) {
  const auto has = [&](const char* name) {
    return std::find(fields.begin(), fields.end(), name) != fields.end();
  };
  return has("input_ids") || has("text") || has("messages") || has("conversations") ||
         (has("prompt") && (has("completion") || has("response"))) ||
         (has("instruction") && (has("output") || has("response")));
}

void set_shape(JsonlRow& row) {
  if (row.input_ids) {
    use(row, RowShape::kIds, {"input_ids"});
    use_if(row.labels.has_value(), "labels", row);
    use_if(row.attention_mask.has_value(), "attention_mask", row);
    use_if(row.position_ids.has_value(), "position_ids", row);
  } else if (row.text) {
    use(row, RowShape::kText, {"text"});
  } else if (row.messages) {
    use(row, RowShape::kMessages, {"messages"});
  } else if (row.prompt && (row.completion || row.response)) {
    use(row, RowShape::kCompletion, {"prompt", row.completion ? "completion" : "response"});
    if (!row.completion) row.completion = std::move(row.response);
  } else if (row.conversations) {
    use(row, RowShape::kSharegpt, {"conversations"});
    row.messages = std::move(row.conversations);
    add_system(row, *row.messages);
  } else if (row.instruction && (row.output || row.response)) {
    use_alpaca(row);
  }
}

AlpacaText alpaca_text(const JsonlRow& row) {
  const std::string input = text_or_nothing(row.input), system = text_or_nothing(row.system);
  std::string prompt =
      !system.empty() ? system
      : input.empty() ? "Below is an instruction that describes a task. Write a response that "
                        "appropriately completes the request."
                      : "Below is an instruction that describes a task, paired with an input that "
                        "provides further context. Write a response that appropriately completes "
                        "the request.";
  prompt += "\n\n### Instruction:\n" + text_or_nothing(row.instruction);
  if (!input.empty()) prompt += "\n\n### Input:\n" + input;
  return {prompt + "\n\n### Response:\n", text_or_nothing(row.output)};
}

}  // namespace sluice::data
