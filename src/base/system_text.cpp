#include "base/system_text.h"

#include "base/file.h"

namespace sluice {

std::string read_text_or_empty(const std::string& path, std::size_t max_bytes) {
  try {
    return read_text(path, max_bytes);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace sluice
