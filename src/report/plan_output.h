#pragma once

#include "base/json.h"
#include "sluice/plan.h"

namespace sluice {

// The object of plan_json().
Json plan_object(const Plan& plan);

}  // namespace sluice
