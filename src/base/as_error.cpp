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
    return Error(ErrorKind::kMemory, "out of memory", place);
  } catch (const std::exception& error) {
    return Error(ErrorKind::kInternal, first_line(error.what()), place);
  } catch (...) {
    return Error(ErrorKind::kInternal, "an exception of unknown type", place);
  }
}

}  // namespace sluice
