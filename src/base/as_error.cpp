#include "base/as_error.h"

#include <cerrno>
#include <new>
#include <system_error>

#include "base/text.h"

namespace sluice {

Error system_error(const std::string& what, int error_number, const std::string& place) {
  const auto error = [&](ErrorKind kind, const std::string& remedy) {
    return Error(kind, {.what = what + ": " + std::generic_category().message(error_number),
                        .where = place,
                        .remedy = remedy});
  };
  switch (error_number) {
    case EMFILE:
    case ENFILE:
      return error(ErrorKind::kUsage, "raise the limit (ulimit -n)");
    case ENOMEM:
    case EAGAIN:
      return error(ErrorKind::kMemory,
                   "start fewer processes and ranks, or raise the limits (ulimit -u, ulimit -v)");
    default:
      return error(ErrorKind::kPeer, "");
  }
}

Error as_error(const std::exception_ptr& thrown, const std::string& place) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::kMemory, {.what = "out of memory", .where = place});
  } catch (const std::system_error& error) {
    const int number = error.code().value();
    const bool is_limit = error.code().category() == std::generic_category() &&
                          (number == EMFILE || number == ENFILE || number == EAGAIN);
    if (is_limit) return system_error("the system refused a call", number, place);
    return Error(ErrorKind::kInternal, {.what = first_line(error.what()), .where = place});
  } catch (const std::exception& error) {
    return Error(ErrorKind::kInternal, {.what = first_line(error.what()), .where = place});
  } catch (...) {
    return Error(ErrorKind::kInternal, {.what = "an exception of unknown type", .where = place});
  }
}

}  // namespace sluice
