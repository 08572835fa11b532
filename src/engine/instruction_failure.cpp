#include "engine/instruction_failure.h"

#include <string>

#include "base/format.h"
#include "engine/out_of_memory.h"

namespace sluice {

Error describe_instruction_failure(int rank, int index, const Action& action, const Action& part,
                                   std::int64_t step, const std::string& of_user) {
  const Error error = caught_error();
  std::string place = formatted("rank {}, instruction {} '{}'", rank, index, to_text(action));
  if (is_compute(part.kind) || is_transfer(part.kind)) {
    place += formatted(" (stage {}, microbatch {})", part.stage, part.microbatch);
  }
  place += ", step " + std::to_string(step);
  if (error.where().find(of_user) == std::string::npos) place += ", " + of_user;
  if (!error.where().empty()) place += ", " + error.where();
  return error.at(place);
}

}  // namespace sluice
