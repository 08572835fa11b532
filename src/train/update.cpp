#include "train/update.h"

#include <utility>

#include "optim/gradient_norm.h"
#include "optim/optimizer.h"

namespace sluice {
namespace {

// Resets `.grad` on destruction.
class GradGuard {
 public:
  void lend(at::Tensor& value, const at::Tensor& gradient) {
    value.mutable_grad() = gradient;
    values_.push_back(value);
  }
  GradGuard() = default;
  ~GradGuard() {
    for (at::Tensor& value : values_) value.mutable_grad().reset();
  }
  GradGuard(const GradGuard&) = delete;
  GradGuard& operator=(const GradGuard&) = delete;

 private:
  std::vector<at::Tensor> values_;
};

}  // namespace

Update::Update(const OptimizerOptions& options, const RankModel& rank)
    : rank_(rank), max_norm_(options.max_norm), targets_(own_blocks(rank)) {
  std::erase_if(targets_, [](const OwnBlocks& own) { return !own.range; });
  std::vector<OptimizedParameter> parameters;
  for (const OwnBlocks& own : targets_) parameters.push_back({own.parameter->name, own.value});
  optimizer_ = make_optimizer(options, std::move(parameters));
}

Work<void> Update::run(int stage, double lr, double grad_norm) {
  std::vector<std::size_t> members;
  {
    GradGuard grads;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      OwnBlocks& own = targets_[i];
      if (own.use->stage->index() != stage) continue;
      members.push_back(i);
      grads.lend(own.value, own.part_of(own.use->gradient()));
    }
    optimizer_->step(members, lr, 1.0 / clip_coefficient(grad_norm, max_norm_));
  }
  return share_blocks(rank_, stage);
}

}  // namespace sluice
