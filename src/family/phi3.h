// Phi-3: joint projections for q, k, v and for gate, up; partial rotation; "longrope".
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

DecoderConfig read_phi3_config(const ConfigReader& config);

}  // namespace sluice::detail
