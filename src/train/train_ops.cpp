#include "sluice/train_ops.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "sluice/error.h"
#include "sluice/gradient_norm.h"
#include "train/parameter_list.h"

namespace sluice {
namespace {

// Numbers travel as doubles; counts below 2^53 are exact.
std::string to_bytes(const std::vector<double>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

std::vector<double> to_numbers(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// Reads the numbers of a rank from front to back.
struct NumberReader {
  std::vector<double> numbers;
  std::size_t next = 0;
  double take() { return numbers.at(next++); }
};

// In new memory: the terms may be other ranks', the result is scaled in place by the optimizer. The
// terms may be on other ranks' devices.
at::Tensor sum_in_order(const std::vector<at::Tensor>& terms, at::Device device) {
  at::Tensor sum;
  for (const at::Tensor& term : terms) {
    if (!term.defined() || term.numel() == 0) continue;
    if (sum.defined()) {
      sum.add_(term.to(device));
    } else {
      sum = term.to(device, term.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    }
  }
  return sum;
}

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
  Transport& transport;
  const OptimizerOptions options;
  std::function<bool()> stop_requested;
  std::vector<int> everybody;
  std::vector<SharedParameter> parameters;
  std::unique_ptr<Optimizer> optimizer;
  const Executor* executor = nullptr;

  double lr = 0;
  bool norm_known = false;            // since the last update
  std::set<std::string> tied_summed;  // names, since the last update
  StepReport report;

  Impl(const Program& the_program, std::vector<Stage*> the_stages, Transport& the_transport,
       const OptimizerOptions& the_options, std::function<bool()> the_stop_requested)
      : program(the_program),
        stages(std::move(the_stages)),
        transport(the_transport),
        options(the_options),
        stop_requested(std::move(the_stop_requested)),
        everybody(static_cast<std::size_t>(transport.size())),
        lr(options.lr) {
    std::iota(everybody.begin(), everybody.end(), 0);
    parameters = list_parameters(stages, transport);
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
    throw Error(ErrorKind::kInternal, "parameter '" + parameter.name + "' is used on " +
                                          std::to_string(parameter.ranks.size()) +
                                          " ranks, but the program has no tie group for it");
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
  // rank, one for the second, and so on. No gradient travels as an empty tensor.
  std::vector<at::Tensor> gather_gradients(const SharedParameter& parameter) {
    std::vector<at::Tensor> gradients(parameter.uses.size());
    std::vector<std::vector<std::size_t>> uses_of_rank(static_cast<std::size_t>(transport.size()));
    std::size_t rounds = 0;
    for (std::size_t u = 0; u < parameter.uses.size(); ++u) {
      auto& of_rank = uses_of_rank[static_cast<std::size_t>(parameter.uses[u].rank)];
      of_rank.push_back(u);
      rounds = std::max(rounds, of_rank.size());
      if (parameter.uses[u].stage) gradients[u] = parameter.uses[u].gradient();
    }
    if (parameter.ranks.size() == 1) return gradients;
    const auto& own = uses_of_rank[static_cast<std::size_t>(transport.rank())];
    for (std::size_t round = 0; round < rounds; ++round) {
      at::Tensor mine = round < own.size() ? gradients[own[round]] : at::Tensor();
      if (!mine.defined())
        mine = at::empty({0}, parameter.local_use()->value().options().requires_grad(false));
      const std::vector<at::Tensor> gathered = transport.all_gather(mine, parameter.ranks);
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        const auto& of_rank = uses_of_rank[static_cast<std::size_t>(parameter.ranks[i])];
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

  void put_stop(std::vector<double>& numbers) const {
    numbers.push_back(stop_requested && stop_requested() ? 1.0 : 0.0);
  }
  void take_stop(std::vector<NumberReader>& ranks) {
    for (NumberReader& rank : ranks) report.stop |= rank.take() != 0.0;
  }

  void put_losses(std::vector<double>& numbers) const {
    const std::vector<MicrobatchLoss> losses =
        executor ? executor->losses() : std::vector<MicrobatchLoss>();
    numbers.push_back(static_cast<double>(losses.size()));
    for (const MicrobatchLoss& loss : losses) {
      numbers.push_back(loss.sum);
      numbers.push_back(static_cast<double>(loss.count));
    }
  }
  void take_losses(std::vector<NumberReader>& ranks) {
    double sum = 0;
    for (NumberReader& rank : ranks) {
      const auto num_losses = static_cast<std::size_t>(rank.take());
      for (std::size_t i = 0; i < num_losses; ++i) {
        sum += rank.take();
        report.tokens += static_cast<std::int64_t>(rank.take());
      }
    }
    report.loss = sum / static_cast<double>(report.tokens);  // the Trainer refuses 0 tokens
  }

  void put_norms(std::vector<double>& numbers) const {
    for (const SharedParameter& parameter : parameters) {
      if (parameter.owner() != transport.rank()) continue;
      const at::Tensor& gradient = parameter.uses.front().gradient();
      numbers.push_back(gradient.defined() ? tensor_norm(gradient) : 0.0);
    }
  }
  void take_norms(std::vector<NumberReader>& ranks) {
    std::vector<double> norms;
    for (const SharedParameter& parameter : parameters) {
      norms.push_back(ranks[static_cast<std::size_t>(parameter.owner())].take());
      report.parameter_norms.emplace_back(parameter.name, norms.back());
    }
    report.grad_norm = combine_norms(norms);
  }

  std::vector<NumberReader> gather(const std::vector<double>& numbers) {
    std::vector<NumberReader> ranks;
    for (const std::string& bytes : transport.all_gather(to_bytes(numbers), everybody))
      ranks.push_back({to_numbers(bytes)});
    return ranks;
  }
};

TrainOps::TrainOps(const Program& program, std::vector<Stage*> stages, Transport& transport,
                   const OptimizerOptions& options, std::function<bool()> stop_requested)
    : impl_(std::make_unique<Impl>(program, std::move(stages), transport, options,
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
  std::vector<double> numbers;
  impl_->put_stop(numbers);
  impl_->put_losses(numbers);
  impl_->put_norms(numbers);
  std::vector<NumberReader> ranks = impl_->gather(numbers);
  StepReport& report = impl_->report = {};
  impl_->take_stop(ranks);
  impl_->take_losses(ranks);
  impl_->take_norms(ranks);
  report.finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm);
  impl_->norm_known = true;
}

void TrainOps::optimizer_step() {
  if (!impl_->norm_known) {
    throw Error(ErrorKind::kInternal, "OPTIMIZER_STEP without REDUCE_NORM before it");
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
