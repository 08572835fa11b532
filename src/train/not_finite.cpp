#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>

#include "comm/gather_messages.h"
#include "sluice/error.h"
#include "sluice/parts/train_ops.h"

namespace sluice {
namespace {

WireWriter write_place(const std::optional<NonFinite>& found) {
  WireWriter message;
  message.add(found.has_value());
  if (!found) return message;
  message.add(found->microbatch).add(found->stage).add(found->in_forward);
  message.add(found->name).add(found->parameter);
  message.add(static_cast<std::int8_t>(found->dtype));
  return message;
}

std::optional<NonFinite> read_place(WireReader& message) {
  std::optional<NonFinite> found;
  if (message.take<bool>()) {
    found.emplace();
    found->microbatch = message.take<std::int64_t>();
    found->stage = message.take<int>();
    found->in_forward = message.take<bool>();
    found->name = message.take<std::string>();
    found->parameter = message.take<std::string>();
    found->dtype = static_cast<at::ScalarType>(message.take<std::int8_t>());
  }
  message.finish();
  return found;
}

// When the stage that computes the loss of each microbatch starts its backward: 0, 1, ... among
// those of its rank.
std::vector<int> backward_order(const Program& program) {
  std::vector<int> order(static_cast<std::size_t>(program.num_microbatches), 0);
  for (const std::vector<Action>& row : program.ranks) {
    int next = 0;
    for (Action action : row) {
      if (action.kind == ActionKind::kOverlap) action = action.overlap_backward();
      const bool starts =
          action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
      if (starts && program.flow.is_last(action.stage, action.microbatch))
        order[action.microbatch] = next++;
    }
  }
  return order;
}

}  // namespace

void throw_not_finite(Executor& executor, const Group& world, const Program& program,
                      const StepBatch& batch, const StepReport& report) {
  const WireWriter own = write_place(executor.find_non_finite(batch));
  const std::vector<int> order = backward_order(program);
  // Smaller is earlier.
  auto moment = [&](const NonFinite& place) {
    return place.in_forward ? std::tuple(0, static_cast<int>(place.microbatch), place.stage)
                            : std::tuple(1, order.at(place.microbatch), -place.stage);
  };
  std::optional<NonFinite> first;
  for (WireReader& message : gather_messages(world, own, "what is not finite")) {
    const std::optional<NonFinite> found = read_place(message);
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
    } else if (first->dtype == at::kHalf) {
      remedy =
          "no update was made; float16 ends at 65504, and the loss is not scaled: use bfloat16 "
          "(model.dtype), which reaches as far as float32";
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
  throw Error(ErrorKind::kNotFinite, {.what = what, .where = where, .remedy = remedy});
}

}  // namespace sluice
