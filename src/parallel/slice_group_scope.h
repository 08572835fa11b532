// The slices of the stage whose modules are being made.
// Thread-safety: a scope is left on the thread that entered it.
#pragma once

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// While it lives, SliceGroup::current() on this thread is `tp`.
class SliceGroupScope {
 public:
  explicit SliceGroupScope(const SliceGroup& tp);
  ~SliceGroupScope();
  SliceGroupScope(const SliceGroupScope&) = delete;
  SliceGroupScope& operator=(const SliceGroupScope&) = delete;

 private:
  const SliceGroup* outer_;
};

}  // namespace sluice::detail
