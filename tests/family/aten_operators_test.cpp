// Rows of the operator table against what LibTorch keeps. measure_aten.py measured
// aten_operators.json.
#include "family/aten_operators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sluice/error.h"

namespace sluice::detail {
namespace {

namespace aten_operators_test {

using json = nlohmann::ordered_json;

CallTensor tensor_of(const json& from) {
  CallTensor tensor;
  tensor.name = from.at("name");
  tensor.dtype = from.at("dtype");
  tensor.sizes = from.at("sizes").get<std::vector<std::int64_t>>();
  tensor.strides = from.at("strides").get<std::vector<std::int64_t>>();
  tensor.storage_bytes = from.at("storage");
  tensor.weight = from.value("weight", "");
  tensor.is_free = from.value("free", false);
  return tensor;
}

CallValue value_of(const json& from) {
  if (from.is_boolean()) return from.get<bool>();
  if (from.is_number_integer()) return from.get<std::int64_t>();
  if (from.is_number()) return from.get<double>();
  if (from.is_string()) return from.get<std::string>();
  if (from.is_array() && (from.empty() || from[0].is_number_integer()))
    return from.get<std::vector<std::int64_t>>();
  return {};
}

// A graph states only the name, dtype and sizes of results, so no more is filled in.
OperatorCall call_of(const json& row) {
  OperatorCall call;
  call.target = row.at("target");
  for (const auto& [argument, tensors] : row.at("tensors").items()) {
    call.tensors.emplace_back(argument, std::vector<CallTensor>{});
    for (const json& each : tensors) call.tensors.back().second.push_back(tensor_of(each));
  }
  for (const auto& [argument, value] : row.at("values").items())
    call.values.emplace_back(argument, value_of(value));
  for (const json& each : row.at("results")) {
    CallTensor result = tensor_of(each);
    result.strides.clear();
    result.storage_bytes = -1;
    call.results.push_back(result);
  }
  return call;
}

json table() {
  std::ifstream file(std::string(SLUICE_TEST_DATA) + "/family/aten_operators.json");
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

std::string shown(const json& row) {
  std::string text = row.at("target").get<std::string>() + " " + row.at("values").dump();
  for (const auto& [argument, tensors] : row.at("tensors").items())
    for (const json& each : tensors)
      text += " " + each.at("name").get<std::string>() + ":" + each.at("dtype").get<std::string>() +
              each.at("sizes").dump() + each.at("strides").dump();
  return text;
}

// Puts the operator behind others that compute from "x" each value that has a gradient.
LayerOperators layer_of(const OperatorCall& call, const std::set<std::string>& gradients) {
  LayerOperators layer;
  for (const auto& [argument, tensors] : call.tensors)
    for (const CallTensor& each : tensors)
      if (each.weight.empty() && gradients.contains(each.name)) {
        Operator& of = layer.all.emplace_back();
        of.reads = {"x"};
        of.writes = each.name;
      }
  for (const Operator& each : row_of(call, {}).operators) layer.all.push_back(each);
  return layer;
}

LayerCost cost_for(const OperatorCall& call, const std::set<std::string>& gradients) {
  return cost_of(
      layer_of(call, gradients),
      [&](const std::string& weight) { return gradients.contains(weight); }, /*flows=*/true);
}

// Returns the kept bytes per name of an argument or result, and under "" those of all other
// tensors.
std::map<std::string, double> kept_by_name(const OperatorCall& call,
                                           const std::set<std::string>& gradients) {
  std::set<std::string> names;
  for (const auto& [argument, tensors] : call.tensors)
    for (const CallTensor& each : tensors) names.insert(each.name);
  for (const CallTensor& each : call.results) names.insert(each.name);
  const LayerOperators layer = layer_of(call, gradients);
  std::map<std::string, double> kept;
  std::set<std::string> all;
  for (const Operator& of : layer.all)
    for (const OperatorBytes& bytes : of.bytes) all.insert(bytes.name);
  const auto without = [&](const std::string& name) {
    LayerOperators rest = layer;
    for (Operator& of : rest.all)
      std::erase_if(of.bytes, [&](const OperatorBytes& bytes) { return bytes.name == name; });
    return cost_of(
               rest, [&](const std::string& weight) { return gradients.contains(weight); },
               /*flows=*/true)
        .after_forward.constant;
  };
  const double whole = cost_for(call, gradients).after_forward.constant;
  for (const std::string& name : all) {
    const double bytes = whole - without(name);
    if (bytes != 0) kept[names.contains(name) ? name : ""] += bytes;
  }
  return kept;
}

// The table treats a mask that can have a gradient as if it had one, so these cases differ.
bool is_masked_otherwise(const json& row, const std::set<std::string>& gradients) {
  if (row.at("target") != "aten.scaled_dot_product_attention.default") return false;
  const json& tensors = row.at("tensors");
  if (!tensors.contains("attn_mask")) return false;
  const json& mask = tensors.at("attn_mask")[0];
  return mask.at("dtype") != "bool" && !mask.value("free", false) &&
         !gradients.contains("attn_mask");
}

TEST(AtenOperatorsTest, KeepsWhatLibTorchKeepsForEveryChoiceOfGradients) {
  const json rows = table();
  ASSERT_TRUE(rows.is_array());
  std::set<std::string> operators;
  int compared = 0;
  for (const json& row : rows) {
    OperatorCall call = call_of(row);
    settle_results(call, {});
    for (const json& measured : row.at("kept")) {
      std::set<std::string> gradients;
      for (const json& name : measured.at("gradients")) gradients.insert(name);
      if (is_masked_otherwise(row, gradients)) continue;
      std::map<std::string, double> expected, kept = kept_by_name(call, gradients);
      for (const auto& [name, bytes] : measured.at("bytes").items()) expected[name] = bytes;
      std::set<std::string> names;
      for (const auto& [name, bytes] : expected) names.insert(name);
      for (const auto& [name, bytes] : kept) names.insert(name);
      for (const std::string& name : names)
        EXPECT_NEAR(kept[name], expected[name], std::max(8.0, expected[name] / 50))
            << shown(row) << ", gradients of " << measured.at("gradients").dump() << ", '" << name
            << "'";
      ++compared;
    }
    if (!row.at("kept").empty()) operators.insert(row.at("target"));
  }
  EXPECT_GT(operators.size(), 150U);
  EXPECT_GT(compared, 900);
}

TEST(AtenOperatorsTest, HasARowForEveryOperatorThatIsMeasured) {
  for (const json& row : table()) {
    EXPECT_TRUE(has_row(row.at("target").get<std::string>())) << row.at("target");
    EXPECT_TRUE(row_of(call_of(row), {}).known) << row.at("target");
  }
}

// Operators that sixteen architectures of transformers call and that are not measured.
TEST(AtenOperatorsTest, HasARowForWhatExportedModelsCall) {
  for (const char* target : {"aten._assert_tensor_metadata.default",
                             "aten.sym_size.int",
                             "aten.arange.default",
                             "aten.arange.start_step",
                             "aten.to.dtype_layout",
                             "aten.to.device",
                             "aten.__and__.Tensor",
                             "aten.new_ones.default",
                             "aten.ones.default",
                             "aten._assert_scalar.default",
                             "aten.item.default",
                             "aten.bitwise_not.default",
                             "aten.add_.Tensor",
                             "aten.div_.Tensor",
                             "aten.copy_.default",
                             "aten.fill_.Scalar",
                             "aten.masked_fill_.Scalar",
                             "aten.index_put_.default",
                             "aten.scatter_.value",
                             "aten.empty_like.default",
                             "aten.new_empty.default",
                             "aten.full.default",
                             "aten.full_like.default",
                             "aten.zeros.default",
                             "aten._is_all_true.default",
                             "aten.conv2d.padding",
                             "aten.upsample_nearest2d.vec",
                             "aten.broadcast_tensors.default",
                             "_operator.mul",
                             "_operator.floordiv",
                             "torch.sym_ite",
                             "torch.sym_not",
                             "transformers.grouped_mm_fallback.default"})
    EXPECT_TRUE(has_row(target)) << target;
  for (const char* target : {"aten.fft_fft.default", "mine.linear.default", "aten", "", "linear"})
    EXPECT_FALSE(has_row(target)) << target;
}

CallTensor tensor(const std::string& name, std::vector<std::int64_t> sizes) {
  CallTensor made;
  made.name = name;
  made.dtype = "float32";
  made.sizes = std::move(sizes);
  return made;
}

OperatorCall call_of(const std::string& target, std::vector<CallTensor> operands) {
  OperatorCall call;
  call.target = target;
  const char* const arguments[] = {"self", "other"};
  for (std::size_t i = 0; i < operands.size(); ++i)
    call.tensors.push_back({arguments[i], {operands[i]}});
  call.results = {tensor("y", operands.front().sizes)};
  return call;
}

TEST(AtenOperatorsTest, AnOperatorWithoutARowKeepsAllThatItReads) {
  OperatorCall call = call_of("mine.mixes.default", {tensor("a", {4, 8}), tensor("b", {4, 8})});
  settle_results(call, {});
  const OperatorRow row = row_of(call, {});
  EXPECT_FALSE(row.known);
  EXPECT_EQ(kept_by_name(call, {"a"}), (std::map<std::string, double>{{"a", 128}, {"b", 128}}));
  EXPECT_TRUE(kept_by_name(call, {}).empty());
}

TEST(AtenOperatorsTest, ACallThatLacksAnArgumentOfItsOperatorIsAsWithoutARow) {
  for (const char* target : {"aten.linear.default", "aten.where.self", "aten.gather.default",
                             "aten.cross_entropy_loss.default", "aten.matmul.default"}) {
    OperatorCall call = call_of(target, {tensor("a", {4, 8})});
    settle_results(call, {});
    EXPECT_FALSE(row_of(call, {}).known) << target;
  }
  OperatorCall none;
  none.target = "aten.silu.default";
  settle_results(none, {});
  EXPECT_FALSE(row_of(none, {}).known);
}

TEST(AtenOperatorsTest, WhatRunsWithoutGradientsKeepsNothing) {
  OperatorCall call = call_of("aten.silu.default", {tensor("a", {4, 8})});
  call.without_gradient = true;
  settle_results(call, {});
  EXPECT_TRUE(call.results[0].is_free);
  EXPECT_TRUE(kept_by_name(call, {"a"}).empty());
}

TEST(AtenOperatorsTest, AResultThatIsWrittenInPlaceHasTheStorageOfItsArgument) {
  OperatorCall call = call_of("aten.add_.Tensor", {tensor("a", {4, 8}), tensor("b", {4, 8})});
  settle_results(call, {});
  EXPECT_EQ(call.results[0].name, "a");
  OperatorCall other = call_of("aten.__and__.Tensor", {tensor("a", {4, 8}), tensor("b", {4, 8})});
  settle_results(other, {});
  EXPECT_EQ(other.results[0].name, "y");
}

TEST(AtenOperatorsTest, SizesThatNoTensorHasAreAnError) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{-1, 4}, {1LL << 40, 1LL << 40}, {INT64_MAX}}) {
    OperatorCall call = call_of("aten.silu.default", {tensor("a", sizes)});
    EXPECT_THROW(settle_results(call, {}), Error);
    EXPECT_THROW(row_of(call, {}), Error);
  }
  OperatorCall strides = call_of("aten.silu.default", {tensor("a", {4, 8})});
  strides.tensors[0].second[0].strides = {1};
  EXPECT_THROW(settle_results(strides, {}), Error);
}

TEST(AtenOperatorsTest, SharesStoragesAndLiesInMemoryAsLibTorchDoes) {
  int views = 0;
  for (const json& row : table()) {
    OperatorCall call = call_of(row);
    settle_results(call, {});
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      const json& measured = row.at("results")[i];
      const CallTensor* viewed = viewed_argument(call, i);
      EXPECT_EQ(viewed ? viewed->name : "", measured.value("view_of", ""))
          << shown(row) << ", result " << i;
      if (!viewed) {
        EXPECT_EQ(call.results[i].name, measured.at("name").get<std::string>());
      } else {
        ++views;
        EXPECT_EQ(call.results[i].name, viewed->name);
      }
      if (call.results[i].numel() <= 1) continue;
      EXPECT_EQ(call.results[i].strides, measured.at("strides").get<std::vector<std::int64_t>>())
          << shown(row) << ", result " << i;
      EXPECT_NEAR(call.results[i].bytes(), measured.at("storage").get<double>(), 64) << shown(row);
    }
  }
  EXPECT_GT(views, 50);
}

TEST(AtenOperatorsTest, CountsOperationsOfProductsAsTorchDoes) {
  int products = 0;
  for (const json& row : table()) {
    const double forward = row.at("flops")[0], backward = row.at("flops")[1];
    // not a product, or a CPU kernel that torch's counter does not support
    if (forward == 0) continue;
    const OperatorCall call = call_of(row);
    std::set<std::string> gradients;
    for (const auto& [argument, tensors] : row.at("tensors").items())
      for (const json& each : tensors) gradients.insert(each.at("name"));
    const LayerCost cost = cost_for(call, gradients);
    EXPECT_DOUBLE_EQ(cost.forward_flops.constant, forward) << shown(row);
    // torch's counter ignores `groups` in the backward of a convolution.
    if (row.at("values").value("groups", 1) == 1) {
      EXPECT_DOUBLE_EQ(cost.input_flops.constant + cost.weight_flops.constant, backward)
          << shown(row);
    }
    ++products;
  }
  EXPECT_GT(products, 40);
}

}  // namespace aten_operators_test
}  // namespace
}  // namespace sluice::detail
