#include "job/wait_notice.h"

#include "base/log.h"

namespace sluice {

std::string WaitNotice::refused_text() const {
  const std::string from = server_ ? server_->refused() : "";
  return from.empty() ? "" : ", and a peer with another secret was refused (from " + from + ")";
}

void WaitNotice::tick(const std::function<std::string()>& for_whom) {
  const Clock::time_point now = Clock::now();
  const std::string refused = refused_text();
  const bool is_news = has_told_ && !refused.empty() && refused != refused_;
  if (now < next_ && !is_news) return;
  next_ = now + kAgain;
  has_told_ = true;
  refused_ = refused;
  const std::string text = "waiting for " + for_whom() + refused;
  refused.empty() ? log_info(text) : log_warning(text);
}

}  // namespace sluice
