#pragma once

#include <memory>

#include "kind/model_kind.h"

namespace sluice::detail {

const ModelKind& family_kind();
std::shared_ptr<const ModelSource> family_source(const ModelSpec& model);
// The source of a model that is planned, but never made.
std::shared_ptr<const ModelSource> planned_source();

// Like read_model_spec(), but accepts models without modules (planned.h), too.
ModelSpec read_planned_spec(const std::string& path, const Precision& precision);

}  // namespace sluice::detail
