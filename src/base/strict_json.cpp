#include "base/strict_json.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "base/json_events.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::string position_text(std::string_view text, std::size_t byte, const std::string& file_name) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return formatted("{}:{}:{}", file_name, line, std::max<std::size_t>(column, 1));
}

}  // namespace

class JsonBuilder final : public JsonEvents {
 public:
  JsonBuilder(std::string_view text, const std::string& file, KeyOrder order,
              std::size_t max_values)
      : text_(text), file_(file), order_(order), max_values_(max_values) {}

  Json take() { return std::move(root_); }

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value) override { return add(value); }
  bool string(std::string& text) override { return add(std::move(text)); }
  bool key(std::string& text) override {
    members_of_open().push_back({std::move(text), {}});
    return true;
  }
  bool start_object() override { return open(Json::object()); }
  bool start_array() override { return open(Json::array()); }
  bool end_object() override {
    Json::Members& members = members_of_open();
    if (order_ == KeyOrder::kSorted) {
      std::ranges::sort(members, {}, &Json::Member::key);
      std::get<Json::Object>(open_.back().value_).sorted = true;
      require_once(members,
                   [](const Json::Member& member) { return std::string_view(member.key); });
    } else {
      std::vector<std::string_view> keys;
      for (const Json::Member& member : members) keys.push_back(member.key);
      std::ranges::sort(keys);
      require_once(keys, std::identity());
    }
    return close();
  }
  bool end_array() override { return close(); }

  void malformed(const JsonFault& fault) override {
    refuse("not valid JSON: " + fault.reason,
           fault.is_too_large ? file_ : position_text(text_, fault.byte, file_),
           fault.is_too_large ? "write a smaller number" : "mend it there");
  }

 private:
  [[noreturn]] static void refuse(const std::string& what, const std::string& where,
                                  const std::string& remedy) {
    throw Error(ErrorKind::kInput, {.what = what, .where = where, .remedy = remedy});
  }

  template <typename Sorted, typename Key>
  void require_once(const Sorted& sorted, Key key) const {
    const auto twice = std::ranges::adjacent_find(sorted, {}, key);
    if (twice != sorted.end()) {
      refuse("key '" + std::string(key(*twice)) + "' appears twice in one JSON object", file_,
             "keep one of them");
    }
  }

  Json::Members& members_of_open() { return std::get<Json::Object>(open_.back().value_).members; }

  bool add(Json value) {
    if (++num_values_ > max_values_) {
      refuse(formatted("JSON has more than {} values", max_values_), file_,
             "name a JSON file made for this");
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      members_of_open().back().value = std::move(value);
    }
    return true;
  }

  bool open(Json empty) {
    if (open_.size() >= kMaxJsonDepth) {
      refuse(formatted("JSON is nested deeper than {} levels", kMaxJsonDepth), file_,
             "name a JSON file made for this");
    }
    open_.push_back(std::move(empty));
    return true;
  }

  bool close() {
    Json whole = std::move(open_.back());
    open_.pop_back();
    return add(std::move(whole));
  }

  std::string_view text_;
  const std::string& file_;
  KeyOrder order_;
  std::size_t max_values_, num_values_ = 0;
  std::vector<Json> open_;
  Json root_;
};

std::size_t find_nul(std::string_view json) { return json.find('\0'); }

Json parse_strict_json(std::string_view text, const std::string& file_name, KeyOrder order,
                       std::size_t max_values) {
  JsonBuilder builder(text, file_name, order, max_values);
  if (const std::size_t nul = find_nul(text); nul != std::string_view::npos)
    builder.malformed({nul + 1, "a NUL character"});
  read_json(text, builder);
  return builder.take();
}

std::optional<Json> parse_json(std::string_view text) {
  try {
    return parse_strict_json(text, "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace sluice
