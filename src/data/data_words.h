// The words of the options of data, as a configuration has them.
// Thread-safety: the tables are immutable.
#pragma once

#include "base/words.h"
#include "sluice/data.h"

namespace sluice::detail {

// The argument only says of which enum.
const Words<DataFormat>& words_of(DataFormat);
const Words<Padding>& words_of(Padding);
const Words<ChatTemplate>& words_of(ChatTemplate);

}  // namespace sluice::detail
