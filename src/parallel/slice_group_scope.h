#pragma once

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// Sets SliceGroup::current() on this thread to `tp` while a stage's modules are made. Leave the
// scope on the same thread.
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
