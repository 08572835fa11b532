// Precompiled for every torch-side source. Nothing of sluice belongs here.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
