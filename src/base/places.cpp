#include "base/places.h"

#include "base/format.h"
#include "base/text.h"

namespace sluice {
namespace {

std::string numbered(const std::string& noun, const std::vector<int>& numbers) {
  return noun + (numbers.size() == 1 ? " " : "s ") + numbers_text(numbers);
}

}  // namespace

std::string numbers_text(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  texts.reserve(numbers.size());
  for (const int number : numbers) texts.push_back(std::to_string(number));
  return join(texts, ", ");
}

std::string ranks_text(const std::vector<int>& ranks) { return numbered("rank", ranks); }

std::string stages_text(const std::vector<int>& stages) { return numbered("stage", stages); }

std::string place_text(int rank, const std::vector<int>& stages) {
  return formatted("rank {} ({})", rank, stages_text(stages));
}

std::string instruction_place(int rank, int index, std::string_view action) {
  return formatted("rank {}, instruction {} '{}'", rank, index, action);
}

}  // namespace sluice
