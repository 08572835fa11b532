// List scheduling: a free rank runs the action that its policy prefers, among those that can start
// now or soon.
#pragma once

#include <array>
#include <vector>

#include "plan/choose/search/order.h"

namespace sluice::detail {

struct ListPolicy {
  std::array<int, 3> preference = {1, 2, 0};  // priorities of F, I, W; the highest runs first
  bool late_stages_first = true;              // applies to F only
  double look_ahead = 0;                      // longest wait for a preferred action
  int most_in_flight = 1;                     // on the last rank, from F to backward
  double more_before = 1;                     // additional microbatches in flight per earlier rank

  int preference_of(ActionKind kind) const {
    const bool is_weight = kind == ActionKind::kBackwardWeight;
    return preference[kind == ActionKind::kForward ? 0 : is_weight ? 2 : 1];
  }
};

// In a fixed order.
std::vector<ListPolicy> list_policies(const OrderProblem& problem);

// A rank starts a microbatch only if everything its stages keep for it fits. Returns an empty order
// if nothing fits.
Order list_schedule(const OrderProblem& problem, const ListPolicy& policy);

}  // namespace sluice::detail
