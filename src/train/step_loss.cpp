#include "train/step_loss.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "base/name_pattern.h"
#include "comm/gather_messages.h"
#include "engine/executor.h"
#include "sluice/error.h"

namespace sluice {
namespace {

Packer write_losses(const Executor* executor, StepRequest request) {
  std::vector<std::int64_t> microbatches, counts, stages, microbatches_of_auxiliary;
  std::vector<double> sums, values;
  std::vector<std::string> names;
  if (executor) {
    for (MicrobatchAuxiliary& loss : executor->auxiliary_losses()) {
      names.push_back(std::move(loss.name));
      stages.push_back(loss.stage);
      microbatches_of_auxiliary.push_back(loss.microbatch);
      values.push_back(loss.value);
    }
    for (const MicrobatchLoss& loss : executor->losses()) {
      microbatches.push_back(loss.microbatch);
      sums.push_back(loss.sum);
      counts.push_back(loss.count);
    }
  }
  return Packer()
      .add(static_cast<int>(request))
      .add(microbatches)
      .add(sums)
      .add(counts)
      .add(names)
      .add(stages)
      .add(microbatches_of_auxiliary)
      .add(values);
}

StepRequest take_request(Unpacker& message) {
  const int request = message.take<int>();
  if (request >= static_cast<int>(StepRequest::kNone) &&
      request <= static_cast<int>(StepRequest::kStop)) {
    return static_cast<StepRequest>(request);
  }
  throw Error(ErrorKind::kInternal,
              {.what = formatted("a rank sent {}, which is not a request", request)});
}

double mean(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

double scale_of(const std::string& value, const std::vector<AuxiliaryLoss>& auxiliary) {
  const auto found =
      std::find_if(auxiliary.begin(), auxiliary.end(),
                   [&](const AuxiliaryLoss& loss) { return matches_pattern(loss.value, value); });
  return found == auxiliary.end() ? 0.0 : found->scale;
}

GatheredLosses read_losses(std::vector<Unpacker> messages) {
  GatheredLosses gathered;
  for (Unpacker& message : messages) {
    gathered.request = std::max(gathered.request, take_request(message));
    const auto microbatches = message.take<std::vector<std::int64_t>>();
    const auto sums = message.take<std::vector<double>>();
    const auto counts = message.take<std::vector<std::int64_t>>();
    const auto names = message.take<std::vector<std::string>>();
    const auto stages = message.take<std::vector<std::int64_t>>();
    const auto microbatches_of_auxiliary = message.take<std::vector<std::int64_t>>();
    const auto values = message.take<std::vector<double>>();
    message.finish();
    for (std::size_t i = 0; i < names.size(); ++i)
      gathered.of_auxiliary.push_back(
          {names[i], stages.at(i), microbatches_of_auxiliary.at(i), values.at(i)});
    for (std::size_t i = 0; i < microbatches.size(); ++i)
      gathered.of_microbatches.push_back({microbatches[i], sums.at(i), counts.at(i)});
  }
  std::sort(gathered.of_microbatches.begin(), gathered.of_microbatches.end(),
            [](const auto& a, const auto& b) { return a.microbatch < b.microbatch; });
  // A stable sort keeps layer order within each stage and microbatch.
  std::stable_sort(gathered.of_auxiliary.begin(), gathered.of_auxiliary.end(),
                   [](const auto& a, const auto& b) {
                     return std::tie(a.stage, a.microbatch) < std::tie(b.stage, b.microbatch);
                   });
  return gathered;
}

}  // namespace

double GatheredLosses::sum() const {
  double sum = 0;
  for (const MicrobatchLoss& loss : of_microbatches) sum += loss.sum;
  return sum;
}

std::int64_t GatheredLosses::count() const {
  std::int64_t count = 0;
  for (const MicrobatchLoss& loss : of_microbatches) count += loss.count;
  return count;
}

std::vector<std::pair<std::string, double>> GatheredLosses::auxiliary() const {
  std::map<std::int64_t, std::int64_t> counts;
  for (const MicrobatchLoss& loss : of_microbatches) counts[loss.microbatch] = loss.count;
  const auto all = static_cast<double>(count());
  std::vector<std::pair<std::string, double>> means;
  for (const MicrobatchAuxiliary& loss : of_auxiliary) {
    auto mean = std::find_if(means.begin(), means.end(),
                             [&](const auto& known) { return known.first == loss.name; });
    if (mean == means.end()) mean = means.insert(means.end(), {loss.name, 0.0});
    if (all > 0) mean->second += loss.value * static_cast<double>(counts[loss.microbatch]) / all;
  }
  return means;
}

Work<GatheredLosses> post_losses(const Group& world, const Executor* executor,
                                 StepRequest request) {
  return post_messages(world, write_losses(executor, request), "losses of the step")
      .then(&read_losses);
}

StepResult result_of(const GatheredLosses& losses, const std::vector<AuxiliaryLoss>& auxiliary) {
  StepResult result;
  result.count = losses.count();
  result.request = losses.request;
  result.loss = mean(losses.sum(), result.count);
  for (const MicrobatchLoss& loss : losses.of_microbatches)
    result.microbatch_losses.push_back(mean(loss.sum, loss.count));
  result.auxiliary = losses.auxiliary();
  for (const auto& [name, value] : result.auxiliary)
    result.loss += scale_of(name, auxiliary) * value;
  result.finite = std::isfinite(result.loss);
  return result;
}

}  // namespace sluice
