// List scheduling: whenever a rank is free it takes, of what it could do now or a little later,
// what its policy likes best. Thread-safety: pure functions.
#pragma once

#include <array>
#include <vector>

#include "plan/choose/search/order.h"

namespace sluice::detail {

struct ListPolicy {
  std::array<int, 3> preference = {1, 2, 0};  // preference for F, I, W: the highest first
  bool late_stages_first = true;              // order of a rank's stages, for F
  double look_ahead = 0;   // how long a rank waits for something that it likes better
  int most_in_flight = 1;  // microbatches of the last rank, from the first F to the last backward
  double more_before = 1;  // so many more on each rank before it

  int preference_of(ActionKind kind) const {
    const bool is_weight = kind == ActionKind::kBackwardWeight;
    return preference[kind == ActionKind::kForward ? 0 : is_weight ? 2 : 1];
  }
};

// The policies that are tried, in a fixed order.
std::vector<ListPolicy> list_policies(const OrderProblem& problem);

// Never runs out of memory on the way: a rank starts a microbatch only when all that the rank's
// stages will keep of it fits. Empty: that never fits.
Order list_schedule(const OrderProblem& problem, const ListPolicy& policy);

}  // namespace sluice::detail
