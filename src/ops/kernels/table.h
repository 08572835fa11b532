#pragma once

#include "ops/kernels/activation_kernels.h"
#include "ops/kernels/adamw_kernel.h"
#include "ops/kernels/attention_kernels.h"
#include "ops/kernels/loss_kernels.h"
#include "ops/kernels/norm_kernels.h"
#include "ops/kernels/product_kernels.h"
#include "ops/kernels/row_kernels.h"

namespace sluice::ops {
namespace {

constexpr Kernels table_of(std::string_view name) {
  return {.name = name,
          .rms_norm = rms_norm,
          .rms_norm_gradient = rms_norm_gradient,
          .layer_norm = layer_norm,
          .layer_norm_gradient = layer_norm_gradient,
          .gated = gated,
          .gated_gradient = gated_gradient,
          .activation = activation,
          .activation_gradient = activation_gradient,
          .add_bias = add_bias,
          .add_rows = add_rows,
          .add_scaled = add_scaled,
          .sum_scaled = sum_scaled,
          .rotate = rotate,
          .attention_scratch = attention_scratch,
          .attention = attention,
          .attention_gradient = attention_gradient,
          .product_scratch = product_scratch,
          .product = product,
          .cross_entropy = cross_entropy,
          .cross_entropy_value = cross_entropy_value,
          .loss_block = loss_block,
          .loss_block_gradient = loss_block_gradient,
          .adamw = adamw};
}

}  // namespace
}  // namespace sluice::ops
