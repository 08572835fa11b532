#include "engine/posts.h"

#include <algorithm>
#include <string>

#include "engine/rank_errors.h"
#include "plan/neighbours.h"

namespace sluice {
namespace {

void finish(const Action& post, Work<void>& work) {
  try {
    work.wait();
  } catch (...) {
    const Error error = caught_error();
    const std::string place = "waiting for '" + to_text(post) + "'";
    throw error.at(error.where().empty() ? place : place + ", " + error.where());
  }
}

}  // namespace

bool Posts::has_used(const Action& user) const {
  return std::any_of(posts_.begin(), posts_.end(),
                     [&](const Post& post) { return detail::uses(program_, user, post.action); });
}

void Posts::wait(const Action& user, bool all) {
  // Remove the used posts before waiting. A Work must not be waited for twice, even if a wait
  // throws.
  std::vector<Post> used, rest;
  for (Post& post : posts_) {
    const bool is_used = all || detail::uses(program_, user, post.action);
    (is_used ? used : rest).push_back(std::move(post));
  }
  posts_ = std::move(rest);
  if (used.empty()) return;
  observers_.tell(&ExecutorObserver::waiting, user);
  for (Post& post : used) finish(post.action, post.work);
  observers_.tell(&ExecutorObserver::arrived, user, {});
}

}  // namespace sluice
