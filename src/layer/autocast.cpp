#include "layer/autocast.h"

#include <ATen/autocast_mode.h>

#include "sluice/error.h"
#include "sluice/parts/values.h"

namespace sluice {
namespace {

// float16 needs loss scaling, which sluice does not have.
void require_bfloat16(at::ScalarType type) {
  if (type == at::kBFloat16) return;
  throw Error(ErrorKind::kUsage, {.what = "autocast to " + dtype_name(type) + " is not supported",
                                  .where = "RunOptions::autocast",
                                  .remedy = "give at::kBFloat16, or nothing"});
}

}  // namespace

AutocastScope::AutocastScope(std::optional<at::ScalarType> type)
    : cache_(at::autocast::is_autocast_cache_enabled()) {
  if (type) require_bfloat16(*type);
  at::autocast::set_autocast_cache_enabled(false);
  if (!type) return;
  for (const at::DeviceType device : kAutocastDevices) {
    saved_.push_back(
        {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)});
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, *type);
  }
}

AutocastScope::~AutocastScope() {
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    at::autocast::set_autocast_enabled(kAutocastDevices[i], saved_[i].enabled);
    at::autocast::set_autocast_dtype(kAutocastDevices[i], saved_[i].type);
  }
  at::autocast::set_autocast_cache_enabled(cache_);
}

std::string autocast_state() {
  std::string state;
  for (const at::DeviceType device : kAutocastDevices) {
    if (!at::autocast::is_autocast_enabled(device)) continue;
    state += (state.empty() ? "" : ", ") + c10::DeviceTypeName(device, /*lower_case=*/true) + " " +
             dtype_name(at::autocast::get_autocast_dtype(device));
  }
  return state.empty() ? "off" : state;
}

}  // namespace sluice
