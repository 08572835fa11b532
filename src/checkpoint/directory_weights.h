#pragma once

#include <cstdint>

#include "io/adapter_directory.h"
#include "sluice/model_spec.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Adapter parameters stay unchanged. The references must outlive the returned function.
FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec);
// Also fills adapters from `adapter`, or draws them without one.
FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec,
                     const AdapterDirectory* adapter, std::uint64_t seed);

}  // namespace sluice
