// A kind of model that sluice does not have: a regression over points, trained by the command's own
// code. A row is {"x": [4 numbers], "y": number}. Rows with y = 0 have no target and do not count.
#pragma once

#include "kind/model_kind.h"

namespace sluice::test {

// The two kinds of sluice and this one.
KindTable kinds_with_points();

}  // namespace sluice::test
