#include "kind/model_kind.h"

#include "base/file.h"

namespace sluice {

std::string ModelSource::read_config(const std::string& directory) const {
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  return read_text(directory + "/config.json", kMaxBytes);
}

void set_row_needs(const RowNeeds& needs, TokenDataOptions& options) {
  options.tokens = needs.tokens;
  options.fields = needs.fields;
  options.count = needs.count;
  options.takes_mask = needs.takes_mask;
  options.takes_positions = needs.takes_positions;
  options.masks_padding = needs.masks_padding;
  options.vocab_size = needs.vocab_size;
  options.num_labels = needs.num_labels;
}

}  // namespace sluice
