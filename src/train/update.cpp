#include "train/update.h"

#include <utility>

#include "sluice/parts/gradient_norm.h"

namespace sluice {
namespace {

// Lends the gradients of this rank's parameters to `.grad`, once for each storage.
class GradGuard {
 public:
  explicit GradGuard(const std::vector<SharedParameter>& parameters) {
    for (const SharedParameter& parameter : parameters) {
      if (const ParameterUse* use = parameter.local_use()) {
        use->value().mutable_grad() = use->gradient();
        values_.push_back(use->value());
      }
    }
  }
  ~GradGuard() {
    for (at::Tensor& value : values_) value.mutable_grad().reset();
  }
  GradGuard(const GradGuard&) = delete;
  GradGuard& operator=(const GradGuard&) = delete;

 private:
  std::vector<at::Tensor> values_;
};

}  // namespace

Update::Update(const OptimizerOptions& options, const std::vector<SharedParameter>& parameters)
    : parameters_(parameters), max_norm_(options.max_norm) {
  std::vector<OptimizedParameter> own;
  for (const SharedParameter& parameter : parameters) {
    if (const ParameterUse* use = parameter.local_use())
      own.push_back({parameter.name, use->value()});
  }
  optimizer_ = make_optimizer(options, std::move(own));
}

void Update::run(double lr, double grad_norm) {
  const GradGuard grads(parameters_);
  optimizer_->step(lr, 1.0 / clip_coefficient(grad_norm, max_norm_));
}

}  // namespace sluice
