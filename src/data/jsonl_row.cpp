#include "data/jsonl_row.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// Builds no document: memory follows the fields that are used, whatever else a row holds.
class RowHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit RowHandler(const std::string& where) : where_(where) {}
  JsonlRow take() { return std::move(row_); }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_float(number_float_t, const string_t&) override {
    return value("a number that is no integer");
  }
  bool binary(binary_t&) override { return value("binary data"); }
  bool number_integer(number_integer_t number) override { return integer(number); }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return value("a huge number");
    return integer(static_cast<std::int64_t>(number));
  }

  bool string(string_t& text) override {
    if (depth_ != 1 || field_ != "text") return value("a string");
    set_once(row_.text, std::move(text));
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ > 0) value("an object");
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) field_ = std::move(name);
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }

  bool start_array(std::size_t) override {
    std::optional<std::vector<std::int64_t>>* list = depth_ == 1 ? list_of_field() : nullptr;
    if (list) {
      set_once(*list, {});
      list_ = &**list;
    } else {
      value("a list");
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    if (--depth_ == 1) list_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    malformed(position);
  }
  [[noreturn]] void malformed(std::size_t position) const {
    fail("not valid JSON at byte " + std::to_string(position) + " of the line");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(
        ErrorKind::kInput,
        {.what = what,
         .where = where_,
         .remedy = "a row is {\"text\": \"...\"} or {\"input_ids\": [...], \"labels\": [...]}"});
  }

  std::optional<std::vector<std::int64_t>>* list_of_field() {
    if (field_ == "input_ids") return &row_.input_ids;
    if (field_ == "labels") return &row_.labels;
    if (field_ == "attention_mask") return &row_.attention_mask;
    return nullptr;
  }

  // A value that no field takes: skipped, unless it stands where one of ours should.
  bool value(const char* found) {
    if (depth_ == 0) fail(std::string(found) + " instead of an object");
    if (list_ || (depth_ == 1 && (field_ == "text" || list_of_field()))) {
      fail(std::string(found) + " in '" + field_ + "'");
    }
    return true;
  }

  bool integer(std::int64_t number) {
    if (!list_ || depth_ != 2) return value("a number");
    list_->push_back(number);
    return true;
  }

  template <typename T>
  void set_once(std::optional<T>& field, T content) {
    if (field) fail("'" + field_ + "' occurs twice");
    field = std::move(content);
  }

  const std::string& where_;
  JsonlRow row_;
  std::string field_;  // of the row itself
  int depth_ = 0;
  std::vector<std::int64_t>* list_ = nullptr;  // the one that is being read
};

}  // namespace

JsonlRow parse_jsonl_row(std::string_view json, const std::string& where) {
  RowHandler handler(where);
  if (const std::size_t nul = find_nul(json); nul != std::string_view::npos)
    handler.malformed(nul + 1);
  nlohmann::json::sax_parse(json, &handler);
  return handler.take();
}

}  // namespace sluice::data
