// Norms and their gradients, with weight w, bias b and offset o:
//   RMS norm:   y = x q (o + w), q = 1 / sqrt(mean(x^2) + eps)
//               dx = q g - x q^3 mean(g x), g = dy (o + w);   dw = sum over rows of dy x q
//   Layer norm: y = n w + b, n = (x - m) q, q = 1 / sqrt(mean((x - m)^2) + eps)
//               dx = q (g - mean(g) - n mean(g n)), g = dy w; dw = sum of dy n; db = sum of dy
#pragma once

#include "ops/kernels/vectors.h"

namespace sluice::ops {
namespace {

inline float inverse_root(float mean_square, float eps) {
  return 1.0f / __builtin_sqrtf(mean_square + eps);
}

void rms_norm(Index rows, Index width, const float* x, Index x_stride, const float* weight,
              float offset, float eps, float* y, Index y_stride, float* inverse) {
  for (Index row = 0; row < rows; ++row, x += x_stride, y += y_stride) {
    const float squares = sum_of(width, [&](Index i, auto part) {
      const Floats v = part.read(x + i);
      return v * v;
    });
    const float q = inverse[row] = inverse_root(squares / static_cast<float>(width), eps);
    each_vector(width, [&](Index i, auto part) {
      part.write(y + i, part.read(x + i) * q * (part.read(weight + i) + offset));
    });
  }
}

void rms_norm_gradient(Index rows, Index width, const float* dy, Index dy_stride, const float* x,
                       Index x_stride, const float* inverse, const float* weight, float offset,
                       const float* residual, float* dx, Index dx_stride, float* d_weight) {
  for (Index row = 0; row < rows; ++row, dy += dy_stride, x += x_stride, dx += dx_stride) {
    const float q = inverse[row];
    const float dot = sum_of(width, [&](Index i, auto part) {
      return part.read(dy + i) * (part.read(weight + i) + offset) * part.read(x + i);
    });
    if (d_weight) {
      each_vector(width, [&](Index i, auto part) {
        part.write(d_weight + i,
                   part.read(d_weight + i) + part.read(dy + i) * (part.read(x + i) * q));
      });
    }
    const float c = dot * q * q * q / static_cast<float>(width);
    const float* const added = residual ? residual + row * dx_stride : nullptr;
    each_vector(width, [&](Index i, auto part) {
      const Floats g =
          part.read(dy + i) * (part.read(weight + i) + offset) * q - part.read(x + i) * c;
      part.write(dx + i, added ? part.read(added + i) + g : g);
    });
  }
}

void layer_norm(Index rows, Index width, const float* x, const float* weight, const float* bias,
                float eps, float* y, float* mean, float* inverse) {
  const float count = static_cast<float>(width);
  for (Index row = 0; row < rows; ++row, x += width, y += width) {
    const float m = mean[row] =
        sum_of(width, [&](Index i, auto part) { return part.read(x + i); }) / count;
    const float squares = sum_of(width, [&](Index i, auto part) {
      const Floats centred = part.keep(part.read(x + i) - m, Floats{});
      return centred * centred;
    });
    const float q = inverse[row] = inverse_root(squares / count, eps);
    each_vector(width, [&](Index i, auto part) {
      part.write(y + i, (part.read(x + i) - m) * q * part.read(weight + i) + part.read(bias + i));
    });
  }
}

void layer_norm_gradient(Index rows, Index width, const float* dy, const float* x,
                         const float* mean, const float* inverse, const float* weight,
                         const float* residual, float* dx, float* d_weight, float* d_bias) {
  const float count = static_cast<float>(width);
  for (Index row = 0; row < rows; ++row, dy += width, x += width, dx += width) {
    const float m = mean[row], q = inverse[row];
    const float mean_g =
        sum_of(width,
               [&](Index i, auto part) { return part.read(dy + i) * part.read(weight + i); }) /
        count;
    const float mean_gn =
        sum_of(width,
               [&](Index i, auto part) {
                 return part.read(dy + i) * part.read(weight + i) * ((part.read(x + i) - m) * q);
               }) /
        count;
    if (d_weight) {
      each_vector(width, [&](Index i, auto part) {
        part.write(d_weight + i,
                   part.read(d_weight + i) + part.read(dy + i) * ((part.read(x + i) - m) * q));
      });
    }
    if (d_bias) {
      each_vector(width, [&](Index i, auto part) {
        part.write(d_bias + i, part.read(d_bias + i) + part.read(dy + i));
      });
    }
    const float* const added = residual ? residual + row * width : nullptr;
    each_vector(width, [&](Index i, auto part) {
      const Floats n = (part.read(x + i) - m) * q;
      const Floats g = (part.read(dy + i) * part.read(weight + i) - mean_g - n * mean_gn) * q;
      part.write(dx + i, added ? part.read(added + i) + g : g);
    });
  }
}

}  // namespace
}  // namespace sluice::ops
