// List scheduling: a free rank runs the action that its policy prefers, among those that can start
// soon.
#pragma once

#include <array>
#include <vector>

#include "plan/choose/search/order.h"

namespace sluice::detail {

struct ListPolicy {
  std::array<int, 3> preference = {1, 2, 0};  // of F, I, W; highest runs first
  bool late_stages_first = true;              // order among forwards
  double look_ahead = 0;                      // how long to stay idle for a preferred action
  int most_in_flight = 1;                     // microbatches on the last rank
  double more_before = 1;                     // additional microbatches per earlier rank

  int preference_of(ActionKind kind) const {
    const bool is_weight = kind == ActionKind::kBackwardWeight;
    return preference[kind == ActionKind::kForward ? 0 : is_weight ? 2 : 1];
  }
};

std::vector<ListPolicy> list_policies(const OrderProblem& problem);

// A rank starts a microbatch only if its activations on all of the rank's stages fit. Returns an
// empty order if none fits.
Order list_schedule(const OrderProblem& problem, const ListPolicy& policy);

}  // namespace sluice::detail
