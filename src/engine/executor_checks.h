#pragma once

#include <map>

#include "sluice/parts/stage.h"
#include "sluice/parts/transport.h"
#include "sluice/parts/values.h"
#include "sluice/program.h"

namespace sluice {

void check_layout(const Program& program, int rank, const std::map<int, Stage*>& stages,
                  const Transport& transport);

void check_batch(const Program& program, int rank, const StepBatch& batch);

}  // namespace sluice
