#include "model/model_maker.h"

#include <cstdlib>

#include "archive/graph_kind.h"
#include "family/family_kind.h"
#include "model/makers.h"

namespace sluice {
namespace {

struct Row {
  const ModelKind& (*kind)();
  const ModelMaker& (*maker)();
};
constexpr Row kRows[] = {{detail::family_kind, detail::family_maker},
                         {detail::graph_kind, detail::graph_maker}};

}  // namespace

const ModelMaker& maker_of(const ModelSpec& spec) {
  for (const Row& row : kRows)
    if (&row.kind() == &spec.source->kind()) return row.maker();
  std::abort();
}

}  // namespace sluice
