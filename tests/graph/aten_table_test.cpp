#include "family/aten_table.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/call_checks.h"

namespace sluice::test::aten_table_test {
namespace {

using detail::AtenRow;

std::vector<AtenRow> rows() {
  return {detail::kAtenRows, detail::kAtenRows + detail::kNumAtenRows};
}

std::string packet_of(const AtenRow& row) {
  return std::string(row.name.substr(0, row.name.find('.')));
}

c10::OperatorHandle operator_of(const AtenRow& row) {
  const std::string overload(row.name.substr(row.name.find('.') + 1));
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      ("aten::" + packet_of(row)).c_str(), overload == "default" ? "" : overload.c_str());
}

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::set<c10::Symbol> returned_aliases(const c10::FunctionSchema& schema) {
  std::set<c10::Symbol> aliases;
  const auto add = [&](const c10::AliasInfo& info) {
    aliases.insert(info.beforeSets().begin(), info.beforeSets().end());
    aliases.insert(info.afterSets().begin(), info.afterSets().end());
  };
  for (const c10::Argument& result : schema.returns()) {
    if (!result.alias_info()) continue;
    add(*result.alias_info());
    for (const c10::AliasInfo& element : result.alias_info()->containedTypes()) add(element);
  }
  return aliases;
}

// These operators write running statistics although LibTorch's schemas do not mention it.
constexpr std::array<std::string_view, 2> kUnsaidWrites{"batch_norm", "instance_norm"};

TEST(AtenTableTest, WritesAreThoseOfLibTorchsSchemas) {
  for (const AtenRow& row : rows()) {
    for (const c10::Argument& argument : operator_of(row).schema().arguments()) {
      const bool is_unsaid =
          is_one_of(kUnsaidWrites, packet_of(row)) &&
          (argument.name() == "running_mean" || argument.name() == "running_var");
      const bool writes = argument.alias_info() && argument.alias_info()->isWrite();
      EXPECT_EQ(detail::contains_name(row.written, argument.name()), writes || is_unsaid)
          << row.name << " " << argument.name();
    }
  }
}

// The table must share whatever a schema shares. It may share more, because some composite
// operators return an argument without declaring it.
TEST(AtenTableTest, SharesAtLeastWhatLibTorchsSchemasSay) {
  for (const AtenRow& row : rows()) {
    const auto& schema = operator_of(row).schema();
    const std::set<c10::Symbol> returned = returned_aliases(schema);
    for (const c10::Argument& argument : schema.arguments()) {
      if (!argument.alias_info()) continue;
      const auto& sets = argument.alias_info()->beforeSets();
      const bool is_returned = std::any_of(
          sets.begin(), sets.end(), [&](c10::Symbol alias) { return returned.contains(alias); });
      if (argument.alias_info()->isWrite() && !is_returned) continue;
      EXPECT_TRUE(detail::contains_name(row.shared, argument.name()))
          << row.name << " " << argument.name();
    }
  }
}

TEST(AtenTableTest, RandomOperatorsAreThoseThatLibTorchTags) {
  constexpr std::array<std::string_view, 14> kWithoutTag{"alpha_dropout",
                                                         "alpha_dropout_",
                                                         "dropout",
                                                         "dropout_",
                                                         "feature_alpha_dropout",
                                                         "feature_alpha_dropout_",
                                                         "feature_dropout",
                                                         "feature_dropout_",
                                                         "gru",
                                                         "lstm",
                                                         "native_dropout",
                                                         "rnn_relu",
                                                         "rnn_tanh",
                                                         "scaled_dot_product_attention"};
  for (const AtenRow& row : rows()) {
    const c10::OperatorHandle op = operator_of(row);
    const auto& arguments = op.schema().arguments();
    const bool takes_generator =
        std::any_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
          const auto* optional = argument.type()->castRaw<c10::OptionalType>();
          return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
        });
    EXPECT_EQ(row.draws, takes_generator || is_one_of(kWithoutTag, packet_of(row)) ||
                             op.hasTag(at::Tag::nondeterministic_seeded))
        << row.name;
  }
}

TEST(AtenTableTest, NoOperatorReachesBeyondItsTensors) {
  constexpr std::array<std::string_view, 8> kBeyond{"from_file", "resize",       "as_strided",
                                                    "_backward", "unsafe_index", "sparse",
                                                    "mkldnn",    "cudnn"};
  for (const AtenRow& row : rows()) {
    if (row.name == "as_strided.default") {
      EXPECT_NE(detail::find_call_check("aten::as_strided"), nullptr);
      continue;
    }
    for (const std::string_view word : kBeyond)
      EXPECT_EQ(row.name.find(word), std::string_view::npos) << row.name;
    for (const c10::Argument& argument : operator_of(row).schema().arguments()) {
      const c10::TypeKind kind = argument.type()->kind();
      EXPECT_NE(kind, c10::TypeKind::StorageType) << row.name;
      EXPECT_NE(kind, c10::TypeKind::StreamObjType) << row.name;
      EXPECT_NE(kind, c10::TypeKind::ClassType) << row.name;
    }
  }
}

}  // namespace
}  // namespace sluice::test::aten_table_test
