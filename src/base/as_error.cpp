#include "base/as_error.h"

#include <new>

#include "base/text.h"

namespace sluice {

Error as_error(const std::exception_ptr& thrown, const std::string& place) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::kMemory, {.what = "out of memory", .where = place});
  } catch (const std::exception& error) {
    return Error(ErrorKind::kInternal, {.what = first_line(error.what()), .where = place});
  } catch (...) {
    return Error(ErrorKind::kInternal, {.what = "an exception of unknown type", .where = place});
  }
}

}  // namespace sluice
