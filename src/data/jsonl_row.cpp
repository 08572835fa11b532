#include "data/jsonl_row.h"

#include <limits>
#include <utility>

#include "base/format.h"
#include "base/json_events.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "data/array_file.h"
#include "data/field_reader.h"
#include "data/row_shape.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

using Numbers = std::vector<std::int64_t>;

struct SpeechField {
  std::string_view name;
  std::optional<Speech> JsonlRow::*member;
  bool is_list = false, may_be_null = false;
};
constexpr SpeechField kSpeechFields[] = {{"messages", &JsonlRow::messages, true},
                                         {"prompt", &JsonlRow::prompt},
                                         {"completion", &JsonlRow::completion},
                                         {"conversations", &JsonlRow::conversations, true, true},
                                         {"instruction", &JsonlRow::instruction, false, true},
                                         {"input", &JsonlRow::input, false, true},
                                         {"output", &JsonlRow::output, false, true},
                                         {"response", &JsonlRow::response, false, true},
                                         {"system", &JsonlRow::system, false, true}};

// Handles parser events without building a JSON document, so large unknown fields need little
// memory.
class RowHandler final : public JsonEvents {
 public:
  RowHandler(const std::string& where, const RowFormat& format)
      : where_(where), format_(format), values_(format.fields.size()) {}

  JsonlRow take() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i]) fail_missing(format_.fields[i]);
      row_.values.push_back(std::move(*values_[i]));
    }
    set_shape(row_);
    return std::move(row_);
  }

  bool null() override {
    if (is_flag()) return true;
    if (skipped_ == 0 && place_ == Place::kRow && !asked_ && speech_field_ &&
        speech_field_->may_be_null)
      return true;
    if (skipped_ == 0 && place_ == Place::kMessage && is_content(key_)) {
      has_null_content_ = true;
      return true;
    }
    return give([](FieldReader& field) { field.refuse("null"); }) || other("null");
  }
  bool boolean(bool value) override {
    look_at(value ? FieldValues::kOnes : FieldValues::kZeros);
    if (is_flag()) return set_flag(value);
    return give([&](FieldReader& field) { field.boolean(value); }) || other("a boolean");
  }
  bool number_float(double number) override {
    look_at(values_of(number));
    if (is_flag()) return number_flag(number);
    return give([&](FieldReader& field) { field.real(number); }) ||
           other("a number that is not an integer");
  }
  bool number_integer(std::int64_t number) override { return integer(number); }
  bool number_unsigned(std::uint64_t number) override {
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return integer(static_cast<std::int64_t>(number));
    look_at(FieldValues::kOther);
    const auto give_huge = [&](FieldReader& field) {
      if (!field.takes_reals()) field.refuse("a huge number");
      field.real(static_cast<double>(number));
    };
    return give(give_huge) || other("a huge number");
  }

  bool string(std::string& text) override {
    look_at(text.empty() ? FieldValues::kNone : FieldValues::kOther);
    if (skipped_ > 0 || give([&](FieldReader& field) { give_file(field, text); })) return true;
    if (place_ == Place::kRow && is_text_field()) {
      set_once(row_.text, std::move(text));
    } else if (place_ == Place::kRow && speech_field_ && !speech_field_->is_list) {
      begin_speech().text = std::move(text);
    } else if (place_ == Place::kMessage && is_content(key_)) {
      set_of_message(content_, std::move(text));
    } else if (place_ == Place::kMessage && is_role(key_)) {
      set_of_message(role_, is_sharegpt() ? role_of_sharegpt(text) : std::move(text));
    } else if (place_ == Place::kPart && is_of_part(key_)) {
      set_of_message(key_ == "type" ? part_type_ : part_text_, std::move(text));
    } else {
      other("a string");
    }
    return true;
  }

  bool key(std::string& name) override {
    if (skipped_ > 0) return true;
    end_unread();
    const bool is_hidden = (place_ == Place::kRow || place_ == Place::kMessage) && rename(name);
    const bool is_named = place_ == Place::kRow && row_.fields.size() < kMaxNamedFields;
    if (is_named && !is_hidden) row_.fields.push_back(name);
    (place_ == Place::kRow ? field_ : key_) = std::move(name);
    if (place_ == Place::kRow) look_up_field();
    const bool is_read = place_ == Place::kRow ? asked_ || is_token_field()
                         : place_ == Place::kMessage
                             ? is_of_message(key_) || is_flag() || key_ == "name"
                             : true;
    if (!is_read && !is_hidden) unread_ = UnreadField{place_ == Place::kRow ? field_ : key_};
    return true;
  }

  bool start_object() override {
    if (skipped_ > 0) {
      ++skipped_;
    } else if (give([](FieldReader& field) { field.refuse("an object"); })) {
      return true;
    } else if (place_ == Place::kOutside) {
      place_ = Place::kRow;
    } else if (place_ == Place::kMessages) {
      role_.reset();
      content_.reset();
      has_null_content_ = false;
      weight_.reset();
      train_.reset();
      place_ = Place::kMessage;
    } else if (place_ == Place::kContent) {
      part_type_.reset();
      part_text_.reset();
      place_ = Place::kPart;
    } else {
      other("an object");
      skipped_ = 1;
    }
    return true;
  }

  bool end_object() override {
    if (skipped_ > 0) {
      --skipped_;
    } else if (place_ == Place::kPart) {
      end_part();
      place_ = Place::kContent;
    } else if (place_ == Place::kMessage) {
      end_unread();
      end_message();
      place_ = Place::kMessages;
    } else {
      end_unread();
      place_ = Place::kOutside;
    }
    return true;
  }

  bool start_array() override {
    if (skipped_ > 0) {
      ++skipped_;
    } else if (give([](FieldReader& field) { field.start_array(); })) {
      return true;
    } else if (std::optional<Numbers>* list = numbers_of_field(); place_ == Place::kRow && list) {
      set_once(*list, {});
      list_ = &**list;
      place_ = Place::kNumbers;
    } else if (place_ == Place::kRow && speech_field_) {
      speech_ = &begin_speech();
      speech_->messages.emplace();
      place_ = Place::kMessages;
    } else if (place_ == Place::kMessage && is_content(key_)) {
      set_of_message(content_, std::string());
      place_ = Place::kContent;
    } else {
      other("a list");
      skipped_ = 1;
    }
    return true;
  }

  bool end_array() override {
    if (skipped_ > 0) {
      --skipped_;
    } else if (place_ == Place::kField) {
      give([](FieldReader& field) { field.end_array(); });
    } else {
      place_ = place_ == Place::kContent ? Place::kMessage : Place::kRow;
    }
    return true;
  }

  void malformed(const JsonFault& fault) override {
    fail(formatted("not valid JSON at byte {} of the line", fault.byte));
  }

 private:
  enum class Place { kOutside, kRow, kField, kNumbers, kMessages, kMessage, kContent, kPart };

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(
        ErrorKind::kInput,
        {.what = what, .where = where_, .remedy = format_.tokens ? kTokenRows : fields_text()});
  }
  static constexpr const char* kTokenRows =
      "a row is {\"text\": \"...\"}, {\"input_ids\": [...], \"labels\": [...]}, {\"prompt\": "
      "\"...\", \"completion\": \"...\"}, {\"messages\": [{\"role\": \"user\", \"content\": "
      "\"...\"}, ...]}, or of alpaca or sharegpt";
  std::string fields_text() const {
    std::string text = "a row is {";
    for (const FieldOption& field : format_.fields)
      text +=
          formatted("{}\"{}\": {}", text.back() == '{' ? "" : ", ", field.name, field_text(field));
    return text + "}";
  }

  [[noreturn]] void fail_missing(const FieldOption& field) const {
    throw Error(ErrorKind::kInput,
                {.what = formatted("the row has no '{}', an input of the model", field.name),
                 .where = where_,
                 .remedy = formatted("give it {}; the row has {}", field_text(field),
                                     row_.fields.empty() ? "nothing" : join(row_.fields, ", "))});
  }

  // Replaces the name of a field by the one that it stands for. Returns true, and empties the name,
  // if another field stands for this one.
  bool rename(std::string& name) const {
    if (!format_.names) return false;
    for (const auto& [own, other] : *format_.names) {
      if (other == name) {
        name = own;
        return false;
      }
    }
    if (!format_.names->contains(name)) return false;
    name.clear();
    return true;
  }

  void look_up_field() {
    speech_field_ = nullptr;
    for (const SpeechField& each : kSpeechFields)
      if (format_.tokens && each.name == field_) speech_field_ = &each;
    asked_.reset();
    for (std::size_t i = 0; i < format_.fields.size(); ++i)
      if (format_.fields[i].name == field_) asked_ = i;
  }

  // Passes the value to the current numeric field. Returns false if there is none.
  template <typename Give>
  bool give(Give&& to) {
    const bool begins = place_ == Place::kRow && asked_;
    if (skipped_ > 0 || (!begins && place_ != Place::kField)) return false;
    if (begins) {
      if (values_[*asked_]) fail("'" + field_ + "' occurs twice");
      reader_.emplace(format_.fields[*asked_]);
    }
    to(*reader_);
    place_ = Place::kField;
    if (reader_->is_complete()) {
      values_[*asked_] = reader_->take();
      place_ = Place::kRow;
    }
    return true;
  }

  void give_file(FieldReader& field, const std::string& name) {
    const bool is_whole = place_ == Place::kRow && !format_.folder.empty();
    if (!is_whole || !names_array(name)) field.refuse("a string");
    read_array(format_.folder, name, field_, field);
  }

  bool is_text_field() const { return format_.tokens && field_ == "text"; }
  std::optional<Numbers>* numbers_of_field() {
    if (!format_.tokens) return nullptr;
    if (field_ == "input_ids") return &row_.input_ids;
    if (field_ == "labels") return &row_.labels;
    if (field_ == "attention_mask") return &row_.attention_mask;
    if (field_ == "position_ids") return &row_.position_ids;
    return nullptr;
  }
  bool is_token_field() { return is_text_field() || numbers_of_field() || speech_field_; }
  bool is_sharegpt() const {
    return row_.conversations.has_value() && speech_ == &*row_.conversations;
  }
  bool is_role(const std::string& key) const {
    return key == "role" || (is_sharegpt() && key == "from");
  }
  bool is_content(const std::string& key) const {
    return key == "content" || (is_sharegpt() && key == "value");
  }
  bool is_of_message(const std::string& key) const { return is_role(key) || is_content(key); }
  static bool is_of_part(const std::string& key) { return key == "type" || key == "text"; }

  Speech& begin_speech() {
    std::optional<Speech>& speech = row_.*speech_field_->member;
    set_once(speech, Speech());
    return *speech;
  }

  // Reports a value of an unexpected type, unless its field is unknown.
  bool other(const char* found) {
    if (skipped_ > 0) return true;
    switch (place_) {
      case Place::kOutside:
        fail(std::string(found) + " instead of an object");
      case Place::kField:
      case Place::kNumbers:
        fail(std::string(found) + " in '" + field_ + "'");
      case Place::kRow:
        if (is_text_field() || numbers_of_field())
          fail(std::string(found) + " in '" + field_ + "'");
        if (speech_field_) set_wrong(begin_speech(), std::string(found));
        break;
      case Place::kMessages:
        set_wrong(*speech_, std::string(found) + " among the messages");
        break;
      case Place::kMessage:
        if (is_of_message(key_)) set_wrong_message(std::string(found) + " as '" + key_ + "'");
        if (is_flag()) refuse_flag(found);
        break;
      case Place::kContent:
        set_wrong_message(std::string(found) + " among the parts of 'content'");
        break;
      case Place::kPart:
        if (is_of_part(key_))
          set_wrong_message(std::string(found) + " as '" + key_ + "' of a part of 'content'");
        break;
    }
    return true;
  }

  bool integer(std::int64_t number) {
    look_at(values_of(static_cast<double>(number)));
    if (is_flag()) return number_flag(static_cast<double>(number));
    if (give([&](FieldReader& field) { field.integer(number); })) return true;
    if (skipped_ == 0 && place_ == Place::kNumbers) {
      list_->push_back(number);
      return true;
    }
    return other("a number");
  }

  static FieldValues values_of(double number) {
    return number == 1   ? FieldValues::kOnes
           : number == 0 ? FieldValues::kZeros
                         : FieldValues::kOther;
  }
  void look_at(FieldValues scalar) {
    if (unread_) unread_->values = joined(unread_->values, scalar);
  }
  void end_unread() {
    if (!unread_) return;
    const UnreadField field = *std::exchange(unread_, std::nullopt);
    if (place_ == Place::kMessage) {
      const FieldRefusal refusal = refusal_of_message_field(field);
      if (!refusal.what.empty()) set_wrong_message(refusal.what, refusal.remedy);
    } else if (row_.unread.size() < kMaxNamedFields || may_be_refused(field.name)) {
      row_.unread.push_back(field);
    }
  }

  bool is_flag() const {
    return skipped_ == 0 && place_ == Place::kMessage && (key_ == "weight" || key_ == "train");
  }
  bool number_flag(double number) {
    if (number != 0 && number != 1) return refuse_flag(shortest(number));
    return set_flag(number == 1);
  }
  bool set_flag(bool value) {
    std::optional<bool>& flag = key_ == "weight" ? weight_ : train_;
    if (flag) set_wrong_message("'" + key_ + "' twice");
    flag = value;
    return true;
  }
  bool refuse_flag(const std::string& found) {
    set_wrong_message(found + " as '" + key_ + "'",
                      "write 'weight': 1 or 'train': true for a message that counts, else 0 or "
                      "false");
    return true;
  }

  void end_part() {
    if (part_type_ != "text") {
      set_wrong_message("a part of 'content' that is not text: " +
                        (part_type_ ? "'" + *part_type_ + "'" : "it has no 'type'"));
    } else if (!part_text_) {
      set_wrong_message("a part of 'content' without 'text'");
    } else {
      *content_ += *part_text_;
    }
  }

  void end_message() {
    const std::string content = is_sharegpt() ? "'value'" : "'content'";
    if (!role_) set_wrong_message(is_sharegpt() ? "no 'from'" : "no 'role'");
    if (!content_) set_wrong_message((has_null_content_ ? "null as " : "no ") + content);
    if (weight_ && train_ && *weight_ != *train_)
      set_wrong_message("contradicting 'weight' and 'train'", "keep one of them");
    if (!role_ || !content_) return;
    speech_->messages->push_back(
        {std::move(*role_), std::move(*content_), weight_ ? weight_ : train_});
  }

  static void set_wrong(Speech& speech, std::string what, const std::string& remedy = {}) {
    if (!speech.wrong.empty()) return;
    speech.wrong = std::move(what);
    speech.remedy = remedy;
  }
  void set_wrong_message(const std::string& what, const std::string& remedy = {}) {
    set_wrong(*speech_, formatted("{} in message {}", what, speech_->messages->size() + 1), remedy);
  }
  void set_of_message(std::optional<std::string>& member, std::string text) {
    if (member) set_wrong_message("'" + key_ + "' twice");
    member = std::move(text);
  }

  template <typename T>
  void set_once(std::optional<T>& field, T content) {
    if (field) fail("'" + field_ + "' occurs twice");
    field = std::move(content);
  }

  const std::string& where_;
  const RowFormat& format_;
  JsonlRow row_;
  std::vector<std::optional<FieldValue>> values_;  // one value per entry of format_.fields
  std::optional<std::size_t> asked_;               // current field: index into format_.fields
  std::optional<FieldReader> reader_;
  Place place_ = Place::kOutside;
  std::string field_;
  std::string key_;          // current key of a message or a part of its content
  std::size_t skipped_ = 0;  // nesting depth in a skipped value
  Numbers* list_ = nullptr;
  const SpeechField* speech_field_ = nullptr;  // the current field, where it is one of them
  Speech* speech_ = nullptr;
  std::optional<std::string> role_, content_, part_type_, part_text_;
  bool has_null_content_ = false;
  std::optional<bool> weight_, train_;
  std::optional<UnreadField> unread_;
};

}  // namespace

JsonlRow parse_jsonl_row(std::string_view json, const std::string& where, const RowFormat& format) {
  RowHandler handler(where, format);
  if (const std::size_t nul = find_nul(json); nul != std::string_view::npos)
    handler.malformed({nul + 1, {}});
  try {
    read_json(json, handler);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw error.at(where);
  }
  return handler.take();
}

}  // namespace sluice::data
