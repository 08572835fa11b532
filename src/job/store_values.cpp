#include "job/store_values.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

namespace sluice {
namespace {

bool is_number(const std::string& text, std::int64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end;
}

void done(Packer& answer) { answer.add(static_cast<int>(Answer::kDone)); }

void refuse(Packer& answer, const std::string& why) {
  answer.add(static_cast<int>(Answer::kRefused)).add(why);
}

}  // namespace

bool StoreValues::has(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [this](const std::string& key) { return values_.contains(key); });
}

void StoreValues::answer(Ask ask, Unpacker& question, Packer& answer) {
  switch (ask) {
    case Ask::kSet: {
      const auto key = question.take<std::string>();
      values_[key] = question.take<std::string>();
      done(answer);
      return;
    }
    case Ask::kHas:
      done(answer);
      answer.add(has(question.take<std::vector<std::string>>()));
      return;
    case Ask::kAdd: {
      const auto key = question.take<std::string>();
      const auto amount = question.take<std::int64_t>();
      std::int64_t sum = 0;
      const auto found = values_.find(key);
      if (found != values_.end() && !is_number(found->second, sum)) {
        refuse(answer, "the value of '" + key + "' is not a number to add to");
        return;
      }
      if (__builtin_add_overflow(sum, amount, &sum)) {
        refuse(answer, "the sum of '" + key + "' is beyond 64 bits");
        return;
      }
      values_[key] = std::to_string(sum);
      done(answer);
      answer.add(sum);
      return;
    }
    case Ask::kCompareSet: {
      const auto key = question.take<std::string>();
      const auto expected = question.take<std::string>(), desired = question.take<std::string>();
      const auto found = values_.find(key);
      const bool same = found == values_.end() ? expected.empty() : found->second == expected;
      if (same) values_[key] = desired;
      done(answer);
      answer.add(same ? desired : found == values_.end() ? expected : found->second);
      return;
    }
    case Ask::kAppend: {
      const auto key = question.take<std::string>(), value = question.take<std::string>();
      const auto found = values_.find(key);
      const std::size_t before = found == values_.end() ? 0 : found->second.size();
      if (before + value.size() > kMaxFrame / 2) {
        refuse(answer, "the value of '" + key + "' would be larger than the store can hold");
        return;
      }
      values_[key] += value;
      done(answer);
      return;
    }
    case Ask::kRemove:
      done(answer);
      answer.add(values_.erase(question.take<std::string>()) > 0);
      return;
    case Ask::kCount:
      done(answer);
      answer.add(static_cast<std::int64_t>(values_.size()));
      return;
    case Ask::kGet:
    case Ask::kWait:
    case Ask::kLine:
      break;
  }
  throw Error(ErrorKind::kPeer, {.what = "the job's store does not support this request",
                                 .remedy = "run the same build of sluice in every process"});
}

}  // namespace sluice
