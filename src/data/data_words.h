// Names of enum values in configuration files. Arguments only select the overload.
#pragma once

#include "base/words.h"
#include "sluice/data.h"

namespace sluice::detail {

const Words<DataFormat>& words_of(DataFormat);
const Words<Padding>& words_of(Padding);
const Words<ChatTemplate>& words_of(ChatTemplate);

}  // namespace sluice::detail
