#pragma once

#include <memory>

#include "kind/model_kind.h"

namespace sluice::detail {

const ModelKind& family_kind();
std::shared_ptr<const ModelSource> family_source(const ModelSpec& model);

}  // namespace sluice::detail
