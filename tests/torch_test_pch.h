// Precompiled for every torch-side test.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
