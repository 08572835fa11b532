#include "run/instruction_failure.h"

#include <c10/util/Exception.h>

#include <new>
#include <string>

namespace sluice {
namespace {

constexpr const char* kMemoryRemedy =
    "use more stages, a smaller training.microbatch_size or a schedule with fewer live activations";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// LibTorch's allocators throw plain c10::Error on CPU.
bool says_out_of_memory(const std::string& what) {
  return what.find("allocate memory") != std::string::npos ||
         what.find("out of memory") != std::string::npos;
}

}  // namespace

Error describe_instruction_failure(int rank, int index, const Action& action, std::int64_t step) {
  ErrorKind kind = ErrorKind::kInternal;
  std::string what, where, remedy;
  try {
    throw;
  } catch (const Error& error) {
    kind = error.kind();
    what = error.fact();
    where = error.where();
    remedy = error.remedy();
  } catch (const c10::Error& error) {
    what = first_line(error.what_without_backtrace());
    if (says_out_of_memory(what)) {
      kind = ErrorKind::kMemory;
      remedy = kMemoryRemedy;
    }
  } catch (const std::bad_alloc&) {
    kind = ErrorKind::kMemory;
    what = "out of memory";
    remedy = kMemoryRemedy;
  } catch (const std::exception& error) {
    what = first_line(error.what());
  } catch (...) {
    what = "unknown exception";
  }
  std::string place = "rank " + std::to_string(rank) + ", instruction " + std::to_string(index) +
                      " '" + to_text(action) + "'";
  if (is_compute(action.kind) || is_transfer(action.kind)) {
    place += " (stage " + std::to_string(action.stage) + ", microbatch " +
             std::to_string(action.microbatch) + ")";
  }
  place += ", step " + std::to_string(step);
  if (!where.empty()) place += ", " + where;
  return Error(kind, what, place, remedy);
}

}  // namespace sluice
