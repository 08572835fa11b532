// Weights of a pipeline out of a Hugging Face directory, with those of an adapter.
// Thread-safety: the functions that are returned are called by one rank's thread.
#pragma once

#include <cstdint>

#include "io/adapter_directory.h"
#include "sluice/model_spec.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Parameters as load_parameters(), buffers as load_buffers(); those of adapters stay as they are.
// References must outlive what it returns.
FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec);
// The same, and the parameters of adapters (lora.h): of `adapter`, or drawn without one.
FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec,
                     const AdapterDirectory* adapter, std::uint64_t seed);

}  // namespace sluice
