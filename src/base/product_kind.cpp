#include "base/product_kind.h"

#include <cstdlib>
#include <string>

#include "base/cpu_level.h"
#include "base/words.h"

namespace sluice {
namespace {

const detail::Words<ProductKind>& product_kinds() {
  static const detail::Words<ProductKind> table = {{"own", ProductKind::kOwn},
                                                   {"libtorch", ProductKind::kLibtorch}};
  return table;
}

ProductKind faster_products() {
#ifdef __x86_64__
  if (__builtin_cpu_is("amd") && cpu_level() == CpuLevel::kAvx512) return ProductKind::kOwn;
#endif
  return ProductKind::kLibtorch;
}

}  // namespace

ProductKind parse_product_kind(std::string_view word) {
  return detail::parse_word(product_kinds(), std::string(word), "kind of matrix products",
                            kProductsVariable);
}

ProductKind product_kind() {
  const char* const word = std::getenv(kProductsVariable);
  if (!word || *word == '\0') return faster_products();
  return parse_product_kind(word);
}

}  // namespace sluice
