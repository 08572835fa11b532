#include "run/instruction_failure.h"

#include <c10/util/Exception.h>

#include <optional>
#include <string>

#include "run/out_of_memory.h"

namespace sluice {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Error describe_instruction_failure(int rank, int index, const Action& action, const Action& part,
                                   std::int64_t step) {
  ErrorKind kind = ErrorKind::kInternal;
  std::string what, where, remedy;
  if (const std::optional<std::string> memory = out_of_memory_fact()) {
    kind = ErrorKind::kMemory;
    what = *memory;
    remedy = kOutOfMemoryRemedy;
  } else {
    try {
      throw;
    } catch (const Error& error) {
      kind = error.kind();
      what = error.fact();
      where = error.where();
      remedy = error.remedy();
    } catch (const c10::Error& error) {
      what = first_line(error.what_without_backtrace());
    } catch (const std::exception& error) {
      what = first_line(error.what());
    } catch (...) {
      what = "unknown exception";
    }
  }
  std::string place = "rank " + std::to_string(rank) + ", instruction " + std::to_string(index) +
                      " '" + to_text(action) + "'";
  if (is_compute(part.kind) || is_transfer(part.kind)) {
    place += " (stage " + std::to_string(part.stage) + ", microbatch " +
             std::to_string(part.microbatch) + ")";
  }
  place += ", step " + std::to_string(step);
  if (!where.empty()) place += ", " + where;
  return Error(kind, what, place, remedy);
}

}  // namespace sluice
