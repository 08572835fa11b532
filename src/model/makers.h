#pragma once

#include "model/model_maker.h"

namespace sluice::detail {

const ModelMaker& family_maker();
const ModelMaker& graph_maker();

}  // namespace sluice::detail
