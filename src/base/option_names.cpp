#include "base/option_names.h"

namespace sluice {

std::string with_names(std::string_view text, const NameOfOption& name_of) {
  std::string result;
  for (std::size_t begin = 0;;) {
    const std::size_t open = text.find('`', begin);
    const std::size_t close = open == text.npos ? open : text.find('`', open + 1);
    if (close == text.npos) return result.append(text.substr(begin));
    const std::string name = name_of(text.substr(open + 1, close - open - 1));
    result.append(text.substr(begin, open - begin));
    // The text was no option, so its closing backquote may open another one.
    result.append(name.empty() ? text.substr(open, close - open) : std::string_view(name));
    begin = name.empty() ? close : close + 1;
  }
}

Error with_names(const Error& error, const NameOfOption& name_of) {
  return Error(error.kind(), {.what = with_names(error.fact(), name_of),
                              .where = with_names(error.where(), name_of),
                              .remedy = with_names(error.remedy(), name_of)});
}

std::string first_option(std::string_view text) {
  const std::size_t open = text.find('`');
  const std::size_t close = open == text.npos ? open : text.find('`', open + 1);
  return close == text.npos ? std::string() : std::string(text.substr(open + 1, close - open - 1));
}

}  // namespace sluice
