#include "data/row_fields.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr const char* kOwnIds =
    "write input_ids and labels (docs/data.md#rows-made-elsewhere), or remove the field";
constexpr const char* kMaskRemedy =
    "write it into 'labels': the id where a token counts, -100 elsewhere";
constexpr const char* kPackRemedy =
    "write it into 'position_ids', which start at 0 with every document";
constexpr const char* kToolRemedy =
    "no built-in chat template writes it: use input_ids and labels "
    "(docs/data.md#rows-made-elsewhere)";
constexpr const char* kPictureRemedy = "rows hold text only: remove the field";
constexpr const char* kPreferenceRemedy = "there is no preference loss: remove the field";

// A field that other trainers read. Its `harmless` values have no effect there.
struct KnownField {
  std::string_view name;
  FieldValues harmless;
  const char* remedy;
};
constexpr KnownField kRowFields[] = {
    {"loss_mask", FieldValues::kOnes, kMaskRemedy},
    {"loss_masks", FieldValues::kOnes, kMaskRemedy},
    {"completion_mask", FieldValues::kOnes, kMaskRemedy},
    {"assistant_mask", FieldValues::kOnes, kMaskRemedy},
    {"assistant_masks", FieldValues::kOnes, kMaskRemedy},
    {"assistant_tokens_mask", FieldValues::kOnes, kMaskRemedy},
    {"response_mask", FieldValues::kOnes, kMaskRemedy},
    {"answer_mask", FieldValues::kOnes, kMaskRemedy},
    {"target_mask", FieldValues::kOnes, kMaskRemedy},
    {"label_mask", FieldValues::kOnes, kMaskRemedy},
    {"labels_mask", FieldValues::kOnes, kMaskRemedy},
    {"train_mask", FieldValues::kOnes, kMaskRemedy},
    {"token_mask", FieldValues::kOnes, kMaskRemedy},
    {"generation_mask", FieldValues::kOnes, kMaskRemedy},
    {"action_mask", FieldValues::kOnes, kMaskRemedy},
    {"mask", FieldValues::kOnes, kMaskRemedy},
    {"masks", FieldValues::kOnes, kMaskRemedy},
    {"prompt_mask", FieldValues::kZeros, kMaskRemedy},
    {"input_mask", FieldValues::kOnes, kMaskRemedy},
    {"masked", FieldValues::kZeros, kMaskRemedy},
    {"ignore_mask", FieldValues::kZeros, kMaskRemedy},
    {"loss_weight", FieldValues::kOnes, kMaskRemedy},
    {"loss_weights", FieldValues::kOnes, kMaskRemedy},
    {"token_weights", FieldValues::kOnes, kMaskRemedy},
    {"sample_weight", FieldValues::kOnes, "give files their shares in `data.weights`"},
    {"weight", FieldValues::kOnes, "give files their shares in `data.weights`"},
    {"weights", FieldValues::kOnes, kMaskRemedy},
    {"train", FieldValues::kOnes, "remove the rows that do not count"},
    {"trainable", FieldValues::kOnes, "remove the rows that do not count"},
    {"label", FieldValues::kNone, "write 'labels' beside 'input_ids', one for each token"},
    {"target_ids", FieldValues::kNone, "name it 'labels'"},
    {"targets", FieldValues::kNone, "name it 'labels', one for each token"},
    {"seq_length", FieldValues::kNone, kPackRemedy},
    {"seq_lengths", FieldValues::kNone, kPackRemedy},
    {"seq_lens", FieldValues::kNone, kPackRemedy},
    {"sequence_lengths", FieldValues::kNone, kPackRemedy},
    {"cu_seqlens", FieldValues::kNone, kPackRemedy},
    {"cu_seq_lens", FieldValues::kNone, kPackRemedy},
    {"cu_seq_lens_q", FieldValues::kNone, kPackRemedy},
    {"cu_seq_lens_k", FieldValues::kNone, kPackRemedy},
    {"seq_start_id", FieldValues::kNone, kPackRemedy},
    {"seq_idx", FieldValues::kZeros, kPackRemedy},
    {"segment_ids", FieldValues::kZeros, kPackRemedy},
    {"document_ids", FieldValues::kZeros, kPackRemedy},
    {"doc_ids", FieldValues::kZeros, kPackRemedy},
    {"sequence_ids", FieldValues::kZeros, kPackRemedy},
    {"block_mask", FieldValues::kNone, kPackRemedy},
    {"token_type_ids", FieldValues::kZeros, "the model has no such input: remove the field"},
    {"inputs_embeds", FieldValues::kNone, "the model takes ids: write input_ids"},
    {"decoder_input_ids", FieldValues::kNone, "the model has no decoder: remove the field"},
    {"tools", FieldValues::kNone, kToolRemedy},
    {"functions", FieldValues::kNone, kToolRemedy},
    {"tool_calls", FieldValues::kNone, kToolRemedy},
    {"function_call", FieldValues::kNone, kToolRemedy},
    {"tool_choice", FieldValues::kNone, kToolRemedy},
    {"documents", FieldValues::kNone, kToolRemedy},
    {"chat_template", FieldValues::kNone, kOwnIds},
    {"chat_template_kwargs", FieldValues::kNone, kOwnIds},
    {"enable_thinking", FieldValues::kNone, kOwnIds},
    {"reasoning_content", FieldValues::kNone, kToolRemedy},
    {"reasoning", FieldValues::kNone, kToolRemedy},
    {"thinking", FieldValues::kNone, kToolRemedy},
    {"system_prompt", FieldValues::kNone, "write it as the first message, of role 'system'"},
    {"history", FieldValues::kNone, "write it as messages"},
    {"chosen", FieldValues::kNone, kPreferenceRemedy},
    {"rejected", FieldValues::kNone, kPreferenceRemedy},
    {"chosen_input_ids", FieldValues::kNone, kPreferenceRemedy},
    {"rejected_input_ids", FieldValues::kNone, kPreferenceRemedy},
    {"kto_tag", FieldValues::kNone, kPreferenceRemedy},
    {"margin", FieldValues::kNone, kPreferenceRemedy},
    {"image", FieldValues::kNone, kPictureRemedy},
    {"images", FieldValues::kNone, kPictureRemedy},
    {"pixel_values", FieldValues::kNone, kPictureRemedy},
    {"video", FieldValues::kNone, kPictureRemedy},
    {"videos", FieldValues::kNone, kPictureRemedy},
    {"audio", FieldValues::kNone, kPictureRemedy},
    {"audios", FieldValues::kNone, kPictureRemedy}};

constexpr std::array<std::string_view, 4> kOfIds = {"input_ids", "labels", "attention_mask",
                                                    "position_ids"};
constexpr std::array<std::string_view, 4> kOfText = {"text", "messages", "prompt", "completion"};

constexpr std::pair<std::string_view, FieldValues> kMessageDefaults[] = {
    {"loss_weight", FieldValues::kOnes}, {"trainable", FieldValues::kOnes},
    {"loss_mask", FieldValues::kOnes},   {"loss", FieldValues::kOnes},
    {"masked", FieldValues::kZeros},     {"mask", FieldValues::kZeros},
    {"ignore", FieldValues::kZeros}};

std::string plain(std::string_view name) {
  std::string text = to_lower(name);
  std::erase_if(text, [](char c) { return c == '_' || c == '-' || c == ' '; });
  return text;
}

// Whether the names differ by one letter or two swapped neighbouring letters.
bool is_one_slip(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1 || a == b) return false;
  std::size_t same = 0;
  while (same < a.size() && a[same] == b[same]) ++same;
  if (b.size() > a.size()) return a.substr(same) == b.substr(same + 1);
  if (a.substr(same + 1) == b.substr(same + 1)) return true;
  return same + 1 < a.size() && a[same] == b[same + 1] && a[same + 1] == b[same] &&
         a.substr(same + 2) == b.substr(same + 2);
}

bool looks_like(std::string_view name, std::string_view known) {
  constexpr std::size_t kShortest = 5;  // shorter words often differ by one letter
  const std::string a = plain(name), b = plain(known);
  return a == b || (a.size() >= kShortest && b.size() >= kShortest && is_one_slip(a, b));
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_values(const UnreadField& field, FieldValues harmless) {
  return field.values != FieldValues::kNone && field.values != harmless;
}

// Returns the known field, not in `used`, that `name` probably misspells, or "".
std::string_view meant_field(const std::string& name, const std::vector<std::string>& used) {
  for (const std::string_view known : kOfIds) {
    if (!holds(used, known) && looks_like(name, known)) return known;
  }
  for (const std::string_view known : kOfText) {
    if (!holds(used, known) && plain(name) == known) return known;
  }
  for (const KnownField& known : kRowFields) {
    // Checks only rare names, because common words may resemble known fields: "height" resembles
    // "weight".
    const bool is_rare = known.name.find('_') != std::string_view::npos || known.name == "label";
    if (is_rare ? looks_like(name, known.name) : plain(name) == plain(known.name))
      return known.name;
  }
  return {};
}

}  // namespace

FieldValues joined(FieldValues of_field, FieldValues of_scalar) {
  if (of_field == FieldValues::kNone || of_field == of_scalar) return of_scalar;
  return of_scalar == FieldValues::kNone ? of_field : FieldValues::kOther;
}

bool may_be_refused(const std::string& field) { return !meant_field(field, {}).empty(); }

FieldRefusal refusal_of_row_field(const UnreadField& field, const std::vector<std::string>& used) {
  const auto* known = std::find_if(std::begin(kRowFields), std::end(kRowFields),
                                   [&](const KnownField& each) { return each.name == field.name; });
  if (known != std::end(kRowFields)) {
    if (!has_values(field, known->harmless)) return {};
    return {"sluice does not act on the field '" + field.name + "'", known->remedy};
  }
  if (field.values == FieldValues::kNone) return {};
  const std::string_view meant = meant_field(field.name, used);
  if (meant.empty()) return {};
  return {"'" + field.name + "' is no field of a row",
          formatted("did you mean '{}'? If not, rename or remove it", meant)};
}

FieldRefusal refusal_of_message_field(const UnreadField& field) {
  FieldValues harmless = FieldValues::kNone;
  for (const auto& [name, values] : kMessageDefaults)
    if (name == field.name) harmless = values;
  if (!has_values(field, harmless)) return {};
  static const std::vector<std::string> known = {"role", "content", "name", "weight", "train"};
  const auto near = std::find_if(known.begin(), known.end(), [&](const std::string& name) {
    return looks_like(field.name, name) && name != field.name;
  });
  return {"the field '" + field.name + "', on which sluice does not act,",
          near != known.end()
              ? "did you mean '" + *near + "'?"
              : "a message has 'role', 'content', 'name', 'weight' (0 or 1) and 'train'; write "
                "other messages as input_ids and labels (docs/data.md#rows-made-elsewhere)"};
}

FieldRefusal foreign_format_refusal(const std::vector<std::string>& fields) {
  const auto has = [&](const char* name) { return holds(fields, name); };
  if (has("chosen") && has("rejected")) {
    return {"the row is a preference ('chosen' and 'rejected'), for which sluice has no loss",
            "to train on the chosen answers, convert them: python -c \"import json; "
            "[print(json.dumps({'messages': r['chosen']} if isinstance(r['chosen'], list) else "
            "{'prompt': r['prompt'], 'completion': r['chosen']})) for r in map(json.loads, "
            "open('OLD.jsonl'))]\" > NEW.jsonl"};
  }
  constexpr std::pair<const char*, const char*> kAnswers[] = {{"question", "answer"},
                                                              {"query", "response"},
                                                              {"input", "output"},
                                                              {"problem", "solution"},
                                                              {"query", "answer"}};
  for (const auto& [asked, answered] : kAnswers) {
    if (!has(asked) || !has(answered)) continue;
    return {
        formatted("the row has '{}' and '{}', which are no shape by themselves", asked, answered),
        formatted("set `data.fields` = {{ prompt = \"{}\", completion = \"{}\" }}", asked,
                  answered)};
  }
  return {};
}

}  // namespace sluice::data
