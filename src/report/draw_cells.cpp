#include "report/draw_cells.h"

namespace sluice::detail {

std::string_view color_of(ActionKind kind, int chunk) {
  const bool bright = chunk % 2 == 1;
  switch (kind) {
    case ActionKind::kForward:
      return bright ? "\x1b[30;104m" : "\x1b[97;44m";
    case ActionKind::kBackward:
      return bright ? "\x1b[30;102m" : "\x1b[30;42m";
    case ActionKind::kBackwardInput:
      return bright ? "\x1b[30;106m" : "\x1b[30;46m";
    case ActionKind::kBackwardWeight:
      return bright ? "\x1b[30;103m" : "\x1b[30;43m";
    case ActionKind::kOverlap:
      return bright ? "\x1b[30;105m" : "\x1b[97;45m";
    default:
      return "";
  }
}

std::string colored(std::string_view text, std::string_view code, bool color) {
  if (!color || code.empty() || text.empty()) return std::string(text);
  return std::string(code) + std::string(text) + std::string(kReset);
}

}  // namespace sluice::detail
