#include "sluice/parts/train_ops.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "comm/gather_messages.h"
#include "comm/sum_in_order.h"
#include "sluice/error.h"
#include "sluice/parts/gradient_norm.h"
#include "train/parameter_list.h"

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

struct TrainOps::Impl {
  const Program& program;
  std::vector<Stage*> stages;
  Group world;
  const OptimizerOptions options;
  std::function<bool()> stop_requested;
  std::vector<SharedParameter> parameters;
  std::unique_ptr<Optimizer> optimizer;
  const Executor* executor = nullptr;

  double lr = 0;
  bool norm_known = false;            // since the last update
  std::set<std::string> tied_summed;  // names, since the last update
  StepReport report;

  Impl(const Program& the_program, std::vector<Stage*> the_stages, Group the_world,
       const OptimizerOptions& the_options, std::function<bool()> the_stop_requested)
      : program(the_program),
        stages(std::move(the_stages)),
        world(std::move(the_world)),
        options(the_options),
        stop_requested(std::move(the_stop_requested)),
        lr(options.lr) {
    parameters = list_parameters(stages, world);
    for (const SharedParameter& parameter : parameters) require_tie_group(parameter);
    std::vector<OptimizedParameter> own;
    for (const SharedParameter& parameter : parameters) {
      if (const ParameterUse* use = parameter.local_use())
        own.push_back({parameter.name, use->value()});
    }
    optimizer = make_optimizer(options, std::move(own));
  }

  void require_tie_group(const SharedParameter& parameter) const {
    if (parameter.ranks.size() < 2) return;
    for (const TieGroup& group : program.tie_groups) {
      if (group.name == parameter.name) return;
    }
    throw Error(ErrorKind::kInternal, {.what = "parameter '" + parameter.name + "' is used on " +
                                               std::to_string(parameter.ranks.size()) +
                                               " ranks, but the program has no tie group for it"});
  }

  // Null when the group is frozen.
  const SharedParameter* parameter_of_group(int group) const {
    const std::string& name = program.tie_groups.at(static_cast<std::size_t>(group)).name;
    for (const SharedParameter& parameter : parameters) {
      if (parameter.name == name) return &parameter;
    }
    return nullptr;
  }

  // The gradients of all uses, in layer order; one round of gathering for the first use of every
  // rank, one for the second, and so on.
  std::vector<at::Tensor> gather_gradients(const SharedParameter& parameter) {
    std::vector<at::Tensor> gradients(parameter.uses.size());
    std::map<int, std::vector<std::size_t>> uses_of_rank;
    std::size_t rounds = 0;
    for (std::size_t u = 0; u < parameter.uses.size(); ++u) {
      std::vector<std::size_t>& of_rank = uses_of_rank[parameter.uses[u].rank];
      of_rank.push_back(u);
      rounds = std::max(rounds, of_rank.size());
      if (parameter.uses[u].stage) gradients[u] = parameter.uses[u].gradient();
    }
    if (!parameter.group) return gradients;
    const std::vector<std::size_t>& own = uses_of_rank[world.rank()];
    for (std::size_t round = 0; round < rounds; ++round) {
      const at::Tensor mine = round < own.size() ? gradients[own[round]] : at::Tensor();
      const std::vector<at::Tensor> gathered = parameter.group.all_gather(mine).wait();
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        const std::vector<std::size_t>& of_rank = uses_of_rank[parameter.ranks[i]];
        if (round < of_rank.size()) gradients[of_rank[round]] = gathered[i];
      }
    }
    return gradients;
  }

  void sum_tied(const SharedParameter& parameter) {
    const at::Tensor sum =
        sum_in_order(gather_gradients(parameter), parameter.local_use()->value().device());
    for (const ParameterUse& use : parameter.uses) {
      if (use.stage) use.gradient() = sum;
    }
    tied_summed.insert(parameter.name);
  }

  // What every rank tells the others is written by put_X and read by take_X, from all of them.

  void put_stop(WireWriter& message) const { message.add(stop_requested && stop_requested()); }
  void take_stop(std::vector<WireReader>& messages) {
    for (WireReader& message : messages) report.stop |= message.take<bool>();
  }

  void put_losses(WireWriter& message) const {
    std::vector<double> sums;
    std::vector<std::int64_t> counts;
    if (executor) {
      for (const MicrobatchLoss& loss : executor->losses()) {
        sums.push_back(loss.sum);
        counts.push_back(loss.count);
      }
    }
    message.add(sums).add(counts);
  }
  void take_losses(std::vector<WireReader>& messages) {
    double sum = 0;
    for (WireReader& message : messages) {
      for (const double loss : message.take<std::vector<double>>()) sum += loss;
      for (const auto count : message.take<std::vector<std::int64_t>>()) report.tokens += count;
    }
    report.loss = sum / static_cast<double>(report.tokens);  // the Trainer refuses 0 tokens
  }

  // Of the parameters that this rank owns, in layer order.
  void put_norms(WireWriter& message) const {
    for (const SharedParameter& parameter : parameters) {
      if (parameter.owner() != world.rank()) continue;
      const at::Tensor& gradient = parameter.uses.front().gradient();
      message.add(gradient.defined() ? tensor_norm(gradient) : 0.0);
    }
  }
  void take_norms(std::vector<WireReader>& messages) {
    std::vector<double> norms;
    for (const SharedParameter& parameter : parameters) {
      norms.push_back(messages[static_cast<std::size_t>(parameter.owner())].take<double>());
      report.parameter_norms.emplace_back(parameter.name, norms.back());
    }
    report.grad_norm = combine_norms(norms);
  }
};

TrainOps::TrainOps(const Program& program, std::vector<Stage*> stages, const Group& world,
                   const OptimizerOptions& options, std::function<bool()> stop_requested)
    : impl_(std::make_unique<Impl>(program, std::move(stages), world, options,
                                   std::move(stop_requested))) {}
TrainOps::~TrainOps() = default;

void TrainOps::watch(const Executor& executor) { impl_->executor = &executor; }
void TrainOps::set_learning_rate(double lr) { impl_->lr = lr; }
const StepReport& TrainOps::report() const { return impl_->report; }
const Optimizer& TrainOps::optimizer() const { return *impl_->optimizer; }

void TrainOps::unshard(int /*stage*/) {
  // Every rank holds the parameters of its stages whole: there is nothing to gather.
}

void TrainOps::reshard(int /*stage*/) {
  // Nothing was gathered.
}

void TrainOps::reduce_gradients(int /*stage*/) {
  // With one data-parallel replica a stage's gradients are already those of the whole batch.
}

void TrainOps::reduce_tied(int group) {
  if (const SharedParameter* parameter = impl_->parameter_of_group(group))
    impl_->sum_tied(*parameter);
}

void TrainOps::reduce_norm() {
  // Ties within one stage are no business of the program's.
  for (const SharedParameter& parameter : impl_->parameters) {
    const bool tied_here =
        parameter.uses.size() > 1 && parameter.ranks.size() == 1 && parameter.local_use();
    if (tied_here && !impl_->tied_summed.count(parameter.name)) impl_->sum_tied(parameter);
  }
  WireWriter message;
  impl_->put_stop(message);
  impl_->put_losses(message);
  impl_->put_norms(message);
  std::vector<WireReader> messages =
      gather_messages(impl_->world, std::move(message), "end of step");
  StepReport& report = impl_->report = {};
  impl_->take_stop(messages);
  impl_->take_losses(messages);
  impl_->take_norms(messages);
  for (const WireReader& read : messages) read.finish();
  report.finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm);
  impl_->norm_known = true;
}

void TrainOps::optimizer_step() {
  if (!impl_->norm_known) {
    throw Error(ErrorKind::kInternal, {.what = "OPTIMIZER_STEP without REDUCE_NORM before it"});
  }
  if (impl_->report.finite) {
    const GradGuard grads(impl_->parameters);
    const double coefficient = clip_coefficient(impl_->report.grad_norm, impl_->options.max_norm);
    impl_->optimizer->step(impl_->lr, 1.0 / coefficient);
  }
  for (Stage* stage : impl_->stages) stage->clear_gradients();
  impl_->tied_summed.clear();
  impl_->norm_known = false;
}

}  // namespace sluice
