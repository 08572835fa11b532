#include <algorithm>

#include "base/nearest_name.h"
#include "sluice/error.h"
#include "sluice/parts/values.h"

namespace sluice {

TensorMeta meta_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {{}, at::ScalarType::Undefined};
  return {tensor.sizes().vec(), tensor.scalar_type()};
}

std::string dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return "float64";
    case at::kFloat:
      return "float32";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(dtype);
  }
}

std::string to_text(const TensorMeta& meta) {
  if (meta.dtype == at::ScalarType::Undefined) return "no tensor";
  std::string text = dtype_name(meta.dtype) + "[";
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(meta.sizes[i]);
  }
  return text + "]";
}

namespace {

template <typename Items>
auto find_item(Items& items, std::string_view name) {
  return std::find_if(items.begin(), items.end(),
                      [&](const auto& item) { return item.first == name; });
}

}  // namespace

bool Values::has(std::string_view name) const { return find_item(items_, name) != items_.end(); }

const at::Tensor& Values::get(std::string_view name) const {
  const auto item = find_item(items_, name);
  if (item != items_.end()) return item->second;
  std::string present;
  std::vector<std::string> names;
  for (const auto& [other, tensor] : items_) {
    present += (present.empty() ? "'" : ", '") + other + "'";
    names.push_back(other);
  }
  throw Error(ErrorKind::kUsage,
              {.what = "there is no value named '" + std::string(name) + "'",
               .where = "values present: " + (present.empty() ? "none" : present),
               .remedy = names.empty() ? "" : suggest_name(std::string(name), names)});
}

void Values::set_on_host(Values values) {
  on_host_ = std::make_shared<const Values>(std::move(values));
}

void Values::set(const std::string& name, at::Tensor tensor) {
  const auto item = find_item(items_, name);
  if (item != items_.end()) {
    item->second = std::move(tensor);
  } else {
    items_.emplace_back(name, std::move(tensor));
  }
}

void Values::erase(std::string_view name) {
  const auto item = find_item(items_, name);
  if (item != items_.end()) items_.erase(item);
}

}  // namespace sluice
