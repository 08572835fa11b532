#include "job/rank_saves.h"

#include "sluice/error.h"
#include "sluice/parts/log.h"
#include "sluice/parts/saver.h"

namespace sluice {

bool RankSaves::is_due(std::int64_t step, StepRequest request) const {
  const std::int64_t interval = options_.interval;
  return request == StepRequest::kSave || (interval > 0 && step % interval == 0);
}

// A snapshot is in the plan's memory only where saves are regular.
bool RankSaves::copies() const { return options_.async && options_.interval > 0; }

void RankSaves::settle(const SaveOutcome& outcome) {
  if (!outcome.error) {
    last_ = outcome;
    return;
  }
  if (options_.on_save_error == OnSaveError::kStop) throw Error(*outcome.error);
  if (warns_)
    log_warning("step " + std::to_string(outcome.step) + " is not saved: " + outcome.error->what());
}

void RankSaves::after_step(std::int64_t step, StepRequest request, const Group& world) {
  if (saver_.in_flight()) {
    if (const auto outcome = saver_.poll(world)) settle(*outcome);
  }
  if (!is_due(step, request)) return;
  if (saver_.in_flight()) settle(saver_.finish(world).value());
  const SaveFrom from = copies() ? SaveFrom::kCopy : SaveFrom::kLive;
  if (const auto failed = saver_.begin(target_(step), pipeline_.state(), from, world)) {
    settle(*failed);
  } else if (from == SaveFrom::kLive) {
    settle(saver_.finish(world).value());
  }
}

std::string RankSaves::finish(std::int64_t step, const Group& world) {
  if (saver_.in_flight()) settle(saver_.finish(world).value());
  if (last_ && last_->step == step) return last_->path;
  SaveOutcome outcome = save_checkpoint(target_(step), pipeline_.state(), world);
  if (outcome.error) throw Error(*outcome.error);
  last_ = std::move(outcome);
  return last_->path;
}

std::optional<SaveOutcome> RankSaves::drain(const Group& world) {
  std::optional<SaveOutcome> outcome = saver_.finish(world);
  if (outcome && outcome->error) outcome.reset();
  return outcome;
}

}  // namespace sluice
