#include "engine/rank_errors.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <new>
#include <string_view>

#include "base/as_error.h"
#include "base/format.h"
#include "base/places.h"
#include "base/text.h"
#include "plan/action_kinds.h"

namespace sluice {
namespace {

// LibTorch's message has "you tried to allocate 4096 bytes." on CPU and "Tried to allocate 2.00
// GiB." on CUDA.
std::string fact_from(std::string_view message) {
  static constexpr std::string_view kBefore = "ried to allocate ";
  const std::size_t found = message.find(kBefore);
  if (found == std::string_view::npos) return "out of memory";
  std::string_view amount = message.substr(found + kBefore.size());
  const std::size_t space = amount.find(' ');
  amount = amount.substr(0, amount.find_first_not_of("abcdefghijklmnopqrstuvwxyzGKMT", space + 1));
  std::uint64_t bytes = 0;
  const auto parsed = std::from_chars(amount.data(), amount.data() + amount.size(), bytes);
  const std::string_view rest(parsed.ptr,
                              static_cast<std::size_t>(amount.data() + amount.size() - parsed.ptr));
  const std::string text = rest == " bytes"
                               ? human_bytes(static_cast<std::int64_t>(std::min<std::uint64_t>(
                                     bytes, std::numeric_limits<std::int64_t>::max())))
                               : std::string(amount);
  return "out of memory: " + text + " could not be allocated";
}

}  // namespace

std::optional<std::string> out_of_memory_text() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return fact_from(error.what_without_backtrace());
  } catch (const c10::Error& error) {  // the CPU allocator throws no special type
    const std::string_view what = error.what_without_backtrace();
    const bool failed = what.find("allocate memory") != std::string_view::npos ||
                        what.find("out of memory") != std::string_view::npos;
    return failed ? std::optional(fact_from(what)) : std::nullopt;
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (...) {
    return std::nullopt;
  }
}

Error caught_error(const std::string& place) {
  if (const std::optional<std::string> fact = out_of_memory_text())
    return Error(ErrorKind::kMemory, {.what = *fact, .where = place, .remedy = kOutOfMemoryRemedy});
  try {
    throw;
  } catch (const c10::Error& error) {
    return Error(ErrorKind::kInternal,
                 {.what = first_line(error.what_without_backtrace()), .where = place});
  } catch (...) {
    return as_error(std::current_exception(), place);
  }
}

Error describe_instruction_failure(int rank, int index, const Action& action, const Action& part,
                                   std::int64_t step, const std::string& of_user) {
  const Error error = caught_error();
  std::string place = instruction_place(rank, index, to_text(action));
  if (is_compute(part.kind) || is_transfer(part.kind)) {
    place += formatted(" (stage {}, microbatch {})", part.stage, part.microbatch);
  }
  place += ", step " + std::to_string(step);
  if (error.where().find(of_user) == std::string::npos) place += ", " + of_user;
  if (!error.where().empty()) place += ", " + error.where();
  return error.at(place);
}

void rethrow_with_place(const std::string& place, const std::string& remedy) {
  if (const std::optional<std::string> fact = out_of_memory_text())
    throw Error(ErrorKind::kMemory, {.what = *fact, .where = place, .remedy = remedy});
  throw;
}

}  // namespace sluice
