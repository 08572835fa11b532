#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "base/text.h"
#include "sluice/error.h"
#include "sluice/plan.h"

namespace sluice {

ScheduleChoice ScheduleChoice::parse(std::string_view text) {
  ScheduleChoice choice;
  choice.is_auto = to_lower(std::string(text)) == "auto";
  if (choice.is_auto) return choice;
  try {
    choice.name = text;
  } catch (const Error& error) {
    const std::vector<std::string> ours = {"auto"};
    std::string remedy = error.remedy();
    if (!nearest_name(text, ours).empty())
      remedy = suggest_name(text, ours);
    else if (remedy.starts_with("one of"))
      remedy += ", " + ours.front();
    throw Error(error.kind(),
                {.what = error.fact(), .where = error.where(), .remedy = std::move(remedy)});
  }
  return choice;
}

}  // namespace sluice
