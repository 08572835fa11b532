#include "sluice/error.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "base/nearest_name.h"
#include "base/printable.h"

namespace sluice {
namespace {

// Longer names get no "did you mean", which would be slow and is unlikely to fit.
constexpr std::size_t kMaxNearName = 200;
// An Error with another's whole line (what; where; remedy) has only a `what`.
constexpr std::size_t kMaxLine = 3 * (kMaxShownText + 2);

ErrorText made_printable(const ErrorText& text) {
  const bool alone = text.where.empty() && text.remedy.empty();
  return {.what = printable(text.what, alone ? kMaxLine : kMaxShownText),
          .where = printable(text.where),
          .remedy = printable(text.remedy)};
}

std::string line_of(const ErrorText& text) {
  std::string line = text.what;
  for (const std::string* part : {&text.where, &text.remedy}) {
    if (!part->empty()) line += "; " + *part;
  }
  return line;
}

}  // namespace

Error::Error(ErrorKind kind, ErrorText text) : Error(Printable{}, kind, made_printable(text)) {}

Error::Error(Printable, ErrorKind kind, ErrorText text)
    : std::runtime_error(line_of(text)), kind_(kind), text_(std::move(text)) {}

Error Error::at(std::string place) const {
  return Error(kind_, {.what = text_.what, .where = std::move(place), .remedy = text_.remedy});
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > kMaxNearName) return {};
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() >= name.size() + best_distance) continue;
    const std::size_t distance = detail::edit_distance(name, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best ? *best : std::string();
}

std::string suggest_name(std::string_view name, std::span<const std::string> candidates) {
  if (std::string near = nearest_name(name, candidates); !near.empty()) {
    return "did you mean '" + near + "'?";
  }
  std::string all = "one of: ";
  for (std::size_t i = 0; i < candidates.size(); ++i) all += (i ? ", " : "") + candidates[i];
  return all;
}

}  // namespace sluice
