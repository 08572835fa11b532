#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <sstream>
#include <tuple>

#include "sluice/error.h"
#include "sluice/train_ops.h"

namespace sluice {
namespace {

std::string to_bytes(const std::optional<NonFinite>& found) {
  if (!found) return {};
  std::ostringstream text;
  text << found->microbatch << ' ' << found->stage << ' ' << found->in_forward << ' ' << found->name
       << '\n'
       << found->parameter;
  return text.str();
}

std::optional<NonFinite> from_bytes(const std::string& bytes) {
  NonFinite found;
  std::istringstream text(bytes);
  if (!(text >> found.microbatch >> found.stage >> found.in_forward >> std::ws)) {
    return std::nullopt;
  }
  std::getline(text, found.name);
  std::getline(text, found.parameter);
  return found;
}

// When the last stage starts the backward of each microbatch: 0, 1, ...
std::vector<int> backward_order(const Program& program) {
  std::vector<int> order(static_cast<std::size_t>(program.num_microbatches), 0);
  const int last = program.num_stages() - 1;
  const int rank = program.stage_map.rank_of(last);
  int next = 0;
  for (Action action : program.ranks[static_cast<std::size_t>(rank)]) {
    if (action.kind == ActionKind::kOverlap) action = action.overlap_backward();
    const bool starts =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
    if (starts && action.stage == last) order[static_cast<std::size_t>(action.microbatch)] = next++;
  }
  return order;
}

}  // namespace

void throw_not_finite(Executor& executor, Transport& transport, const Program& program,
                      const StepBatch& batch, const StepReport& report) {
  std::vector<int> everybody(static_cast<std::size_t>(transport.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const std::string own = to_bytes(executor.find_non_finite(batch));
  const std::vector<int> order = backward_order(program);
  // Smaller is earlier.
  auto moment = [&](const NonFinite& place) {
    return place.in_forward
               ? std::tuple(0, static_cast<int>(place.microbatch), place.stage)
               : std::tuple(1, order.at(static_cast<std::size_t>(place.microbatch)), -place.stage);
  };
  std::optional<NonFinite> first;
  for (const std::string& bytes : transport.all_gather(own, everybody)) {
    const std::optional<NonFinite> found = from_bytes(bytes);
    if (found && (!first || moment(*found) < moment(*first))) first = found;
  }

  std::string what, where = "step " + std::to_string(batch.step);
  std::string remedy =
      "no update was made; lower optimizer.lr or optimizer.max_norm, or look at this step's data";
  if (first) {
    what = (first->in_forward ? "'" : "the gradient of '") + first->name + "' is not finite";
    if (!first->parameter.empty()) {
      what += ", nor is the parameter '" + first->parameter + "'";
      remedy = "no update was made; begin from weights that are finite, or lower optimizer.lr";
    }
    where += ", stage " + std::to_string(first->stage) + " (rank " +
             std::to_string(program.stage_map.rank_of(first->stage)) + "), microbatch " +
             std::to_string(first->microbatch);
  } else {
    // Every microbatch alone is finite, so it is their sum that overflowed.
    const auto bad = std::find_if(report.parameter_norms.begin(), report.parameter_norms.end(),
                                  [](const auto& norm) { return !std::isfinite(norm.second); });
    what = bad == report.parameter_norms.end()
               ? "the loss is not finite"
               : "the gradient of '" + bad->first +
                     "' is not finite when summed over the microbatches";
  }
  throw Error(ErrorKind::kNotFinite, what, where, remedy);
}

}  // namespace sluice
