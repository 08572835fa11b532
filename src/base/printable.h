// Names from files, made safe to print: no control characters, no endless lines. No torch.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

inline std::string printable(std::string_view text) {
  constexpr std::size_t kMaxLength = 200;
  std::string shown;
  for (const char c : text.substr(0, kMaxLength)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  if (text.size() > kMaxLength) shown += "...";
  return shown;
}

}  // namespace sluice
