#pragma once

#include <cstdint>

#include "io/adapter_directory.h"
#include "sluice/model_spec.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Returns a function that fills a stage's parameters, except an adapter's. The references must
// outlive the function.
FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec);
// Like weights_of(directory, spec), but also fills adapter parameters from `adapter`, or
// initializes them if it is null.
FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec,
                     const AdapterDirectory* adapter, std::uint64_t seed);

}  // namespace sluice
