#include "train/not_finite.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>

#include "base/format.h"
#include "comm/gather_messages.h"
#include "engine/executor.h"
#include "engine/replicas.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct Found {
  NonFinite place;
  std::int64_t first_microbatch = 0;
};

Packer write_place(const std::optional<NonFinite>& found, std::int64_t first_microbatch) {
  Packer message;
  message.add(first_microbatch).add(found.has_value());
  if (!found) return message;
  message.add(found->microbatch).add(found->stage).add(found->in_forward);
  message.add(found->name).add(found->parameter);
  message.add(static_cast<std::int8_t>(found->dtype));
  return message;
}

std::optional<Found> read_place(Unpacker& message) {
  std::optional<Found> found;
  const auto first_microbatch = message.take<std::int64_t>();
  if (message.take<bool>()) {
    found.emplace();
    found->first_microbatch = first_microbatch;
    NonFinite& place = found->place;
    place.microbatch = message.take<std::int64_t>();
    place.stage = message.take<int>();
    place.in_forward = message.take<bool>();
    place.name = message.take<std::string>();
    place.parameter = message.take<std::string>();
    place.dtype = static_cast<at::ScalarType>(message.take<std::int8_t>());
  }
  message.finish();
  return found;
}

// Returns each microbatch's position among the backwards on the rank that computes its loss.
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
                      const StepBatch& batch,
                      const std::vector<std::pair<std::string, double>>& norms) {
  const Packer own = write_place(executor.find_non_finite(batch), batch.first_microbatch);
  const std::vector<int> order = backward_order(program);
  auto moment = [&](const Found& found) {
    const NonFinite& place = found.place;
    const std::int64_t replica = found.first_microbatch;
    return place.in_forward
               ? std::tuple(0, replica, static_cast<int>(place.microbatch), place.stage)
               : std::tuple(1, replica, order.at(place.microbatch), -place.stage);
  };
  std::optional<Found> earliest;
  for (Unpacker& message : gather_messages(world, own, "what is not finite")) {
    const std::optional<Found> found = read_place(message);
    if (found && (!earliest || moment(*found) < moment(*earliest))) earliest = found;
  }

  const auto rank_of = [&](const Found& found) {
    const auto replica = static_cast<int>(found.first_microbatch / program.num_microbatches);
    return rank_at(program.mesh, program.stage_map.rank_of(found.place.stage), replica);
  };
  std::string what, where = "step " + std::to_string(batch.step);
  std::string remedy = "no update was made; lower `lr` or `max_norm`, or look at this step's data";
  if (earliest) {
    const NonFinite* const first = &earliest->place;
    what = (first->in_forward ? "'" : "the gradient of '") + first->name + "' is not finite";
    if (!first->parameter.empty()) {
      what += ", nor is the parameter '" + first->parameter + "'";
      remedy = "no update was made; start from weights that are finite, or lower `lr`";
    } else if (first->dtype == at::kHalf) {
      remedy =
          "no update was made; float16 ends at 65504, and the loss is not scaled: use bfloat16 "
          "(`dtype`) with the range of float32";
    }
    where += formatted(", stage {} (rank {}), microbatch {}", first->stage, rank_of(*earliest),
                       earliest->first_microbatch + first->microbatch);
  } else {
    // Every microbatch's gradients are finite, so their sum overflowed.
    const auto bad = std::find_if(norms.begin(), norms.end(),
                                  [](const auto& norm) { return !std::isfinite(norm.second); });
    what = bad == norms.end() ? "the loss is not finite"
                              : "the gradient of '" + bad->first +
                                    "' is not finite when summed over the microbatches";
  }
  throw Error(ErrorKind::kNotFinite, {.what = what, .where = where, .remedy = remedy});
}

}  // namespace sluice
