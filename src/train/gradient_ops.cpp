#include "train/gradient_ops.h"

#include <map>
#include <utility>

#include "comm/gather_messages.h"
#include "sluice/error.h"

namespace sluice {
namespace {

WireWriter write_losses(const Executor& executor) {
  std::vector<std::int64_t> microbatches, counts;
  std::vector<double> sums;
  for (const MicrobatchLoss& loss : executor.losses()) {
    microbatches.push_back(loss.microbatch);
    sums.push_back(loss.sum);
    counts.push_back(loss.count);
  }
  return WireWriter().add(microbatches).add(sums).add(counts);
}

double mean(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

StepResult read_losses(std::vector<WireReader> messages) {
  std::map<std::int64_t, MicrobatchLoss> losses;
  for (WireReader& message : messages) {
    const auto microbatches = message.take<std::vector<std::int64_t>>();
    const auto sums = message.take<std::vector<double>>();
    const auto counts = message.take<std::vector<std::int64_t>>();
    message.finish();
    for (std::size_t i = 0; i < microbatches.size(); ++i)
      losses[microbatches[i]] = {microbatches[i], sums.at(i), counts.at(i)};
  }
  StepResult result;
  double sum = 0;
  for (const auto& [microbatch, loss] : losses) {
    sum += loss.sum;
    result.count += loss.count;
    result.microbatch_losses.push_back(mean(loss.sum, loss.count));
  }
  result.loss = mean(sum, result.count);
  return result;
}

[[noreturn]] void refuse(const char* instruction) {
  throw Error(ErrorKind::kInternal,
              {.what = std::string(instruction) + " in a program whose update is the user's"});
}

}  // namespace

GradientOps::GradientOps(const Program& program, const std::vector<SharedParameter>& parameters,
                         Group world)
    : ties_(program, parameters, world.rank()), world_(std::move(world)) {}

void GradientOps::finish_ties() {
  ties_.sum_others();
  ties_.clear();
}

// Parameters are whole, and there is one replica of the gradients.
Work<void> GradientOps::unshard(int /*stage*/) { return Work<void>::done(); }
void GradientOps::reshard(int /*stage*/) {}
Work<void> GradientOps::reduce_gradients(int /*stage*/) { return Work<void>::done(); }

Work<void> GradientOps::reduce_tied(int group) { return ties_.reduce(group); }

Work<void> GradientOps::reduce_loss() {
  return post_messages(world_, write_losses(*executor_), "losses of the step")
      .then(
          [this](std::vector<WireReader> messages) { result_ = read_losses(std::move(messages)); });
}

Work<void> GradientOps::reduce_norm() { refuse("REDUCE_NORM"); }
void GradientOps::optimizer_step() { refuse("OPTIMIZER_STEP"); }

}  // namespace sluice
