#pragma once

#include <cstdint>

#include "io/adapter_directory.h"
#include "sluice/model_spec.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/stage.h"

namespace sluice {

// The returned function leaves adapter parameters unchanged. Its references must outlive it.
FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec);
// Also fills adapters from `adapter`, or draws them if it is null.
FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec,
                     const AdapterDirectory* adapter, std::uint64_t seed);

}  // namespace sluice
