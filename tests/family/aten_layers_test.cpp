// Predicted costs of exported layers, as lists of ATen operators, against what LibTorch keeps and
// needs. measure_layers.py measured aten_layers.json.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "family/aten_operators.h"

namespace sluice::detail {
namespace {

namespace aten_layers_test {

using json = nlohmann::ordered_json;

CallValue value_of(const json& from) {
  if (from.is_boolean()) return from.get<bool>();
  if (from.is_number_integer()) return from.get<std::int64_t>();
  if (from.is_number()) return from.get<double>();
  if (from.is_string()) return from.get<std::string>();
  const auto is_whole = [](const json& each) { return each.is_number_integer(); };
  if (from.is_array() && std::all_of(from.begin(), from.end(), is_whole))
    return from.get<std::vector<std::int64_t>>();
  return {};
}

CallTensor tensor_of(const json& from) {
  CallTensor tensor;
  tensor.name = from.at("name");
  tensor.dtype = from.value("dtype", "");
  tensor.sizes = from.value("sizes", std::vector<std::int64_t>{});
  tensor.strides = from.value("strides", std::vector<std::int64_t>{});
  tensor.storage_bytes = from.value("storage", -1);
  tensor.weight = from.value("weight", "");
  tensor.is_free = from.value("free", false);
  return tensor;
}

std::vector<OperatorCall> calls_of(const json& layer) {
  std::vector<OperatorCall> calls;
  for (const json& from : layer.at("calls")) {
    OperatorCall& call = calls.emplace_back();
    call.target = from.at("target");
    for (const auto& [argument, tensors] : from.at("tensors").items()) {
      call.tensors.emplace_back(argument, std::vector<CallTensor>{});
      for (const json& each : tensors) call.tensors.back().second.push_back(tensor_of(each));
    }
    for (const auto& [argument, value] : from.at("values").items())
      call.values.emplace_back(argument, value_of(value));
    for (const json& each : from.at("results")) call.results.push_back(tensor_of(each));
  }
  return calls;
}

json table() {
  std::ifstream file(std::string(SLUICE_TEST_DATA) + "/family/aten_layers.json");
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

Precision precision_of(const json& layer) {
  Precision precision;
  if (layer.at("autocast").get<bool>()) precision.products = "bfloat16";
  return precision;
}

LayerCost cost_for(const json& layer) {
  std::vector<OperatorCall> calls = calls_of(layer);
  return cost_of(operators_of(calls, layer.at("leaving").get<std::vector<std::string>>(),
                              precision_of(layer)));
}

TEST(AtenLayersTest, EveryOperatorOfTheLayersHasARow) {
  for (const json& layer : table())
    for (const OperatorCall& call : calls_of(layer))
      EXPECT_TRUE(has_row(call.target)) << call.target;
}

double entering_bytes(const json& layer) {
  double bytes = 0;
  std::set<std::string> seen;
  for (const OperatorCall& call : calls_of(layer))
    for (const auto& [argument, tensors] : call.tensors)
      for (const CallTensor& tensor : tensors)
        if (layer.at("gradients").dump().find('"' + tensor.name + '"') != std::string::npos &&
            seen.insert(tensor.name).second)
          bytes += tensor.bytes();
  return bytes;
}

bool is_float32(const json& layer) {
  return layer.dump().find("bfloat16") == std::string::npos && !layer.at("autocast").get<bool>();
}

TEST(AtenLayersTest, KeepsWhatLibTorchKeeps) {
  const json layers = table();
  ASSERT_GE(layers.size(), 17U);
  for (const json& layer : layers) {
    const LayerCost cost = cost_for(layer);
    const double measured = layer.at("kept");
    EXPECT_NEAR(cost.after_forward.constant + cost.casted_weights, measured, measured / 100)
        << layer.at("name");
  }
}

TEST(AtenLayersTest, KeepsForWeightsWhatTheSplitOfABackwardLeaves) {
  for (const json& layer : table()) {
    if (layer.at("gradients").empty()) continue;
    const LayerCost cost = cost_for(layer);
    const double measured = layer.at("after_input");
    EXPECT_NEAR(cost.after_input.constant + cost.casted_weights, measured, measured / 100)
        << layer.at("name");
  }
}

// bfloat16 kernels need scratch memory by blocks. Its share is small for large matrices.
TEST(AtenLayersTest, NeedsInAForwardWhatLibTorchDoes) {
  for (const json& layer : table()) {
    const LayerCost cost = cost_for(layer);
    const double measured = layer.at("in_forward"),
                 tolerance = is_float32(layer) ? measured / 50 : measured / 10;
    EXPECT_NEAR(cost.in_forward.constant - entering_bytes(layer) + cost.casted_weights, measured,
                tolerance)
        << layer.at("name");
  }
}

TEST(AtenLayersTest, NeedsInABackwardWhatLibTorchDoes) {
  for (const json& layer : table()) {
    if (!is_float32(layer)) continue;
    const double measured = layer.at("in_backward");
    EXPECT_NEAR(cost_for(layer).on_entry.constant, measured, measured / 20) << layer.at("name");
  }
}

TEST(AtenLayersTest, WhatIsFrozenKeepsNoInputsOfProducts) {
  const json layers = table();
  const json& llama = layers.at(0);
  std::vector<OperatorCall> calls = calls_of(llama);
  const LayerOperators operators = operators_of(calls, {}, {});
  const auto none = [](const std::string&) { return false; };
  const LayerCost whole = cost_of(operators), frozen = cost_of(operators, none, true),
                  nothing = cost_of(operators, none, false);
  EXPECT_LT(frozen.after_forward.constant, whole.after_forward.constant);
  EXPECT_GT(frozen.after_forward.constant, 0);
  EXPECT_EQ(frozen.weight_flops.constant, 0);
  EXPECT_EQ(frozen.after_input.constant, 0);
  EXPECT_EQ(nothing.after_forward.constant, 0);
  EXPECT_EQ(nothing.input_flops.constant, 0);
  EXPECT_EQ(nothing.in_forward, whole.in_forward);
}

}  // namespace aten_layers_test
}  // namespace
}  // namespace sluice::detail
