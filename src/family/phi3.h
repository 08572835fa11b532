// Phi-3: one joint projection for q, k, v and one for gate, up; partial rotation; "longrope".
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

DecoderConfig read_phi3_config(const ConfigReader& config);

}  // namespace sluice::detail
