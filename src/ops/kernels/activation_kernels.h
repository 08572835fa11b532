// Activations and their gradients, with the sigmoid s and the normal distribution F:
//   SiLU: x s(x)     GELU: x F(x)
//   GELU tanh: x (1 + tanh u) / 2 = x s(2 u), u(x) = sqrt(2 / pi) (x + 0.044715 x^3)
#pragma once

#include "ops/kernels/kernels.h"
#include "ops/kernels/vectors.h"

namespace sluice::ops {
namespace {

struct Slope {
  Floats value, slope;
};

struct Silu {
  static Floats value(Floats x) { return x * sigmoid(x); }
  static Slope slope(Floats x) {
    const Floats s = sigmoid(x);
    return {x * s, s * (1.0f + x * (1.0f - s))};
  }
};

struct Relu {  // returns NaN for NaN
  static Floats value(Floats x) { return x <= Floats{} ? Floats{} : x; }
  static Slope slope(Floats x) { return {value(x), x <= Floats{} ? Floats{} : all(1.0f)}; }
};

struct Gelu {
  struct Normal {
    Floats distribution, density;
  };
  // For x >= 0, F(-x) = e^(-x^2 / 2) h(1 / (1 + 0.35 x)), so that both tails are accurate. h is a
  // minimax polynomial on [0, 13.3], relative error 3.2e-8.
  static Normal normal(Floats x) {
    const Floats size = x < Floats{} ? -x : x, t = 1.0f / (1.0f + 0.35f * size);
    const Floats e = exp_of(-0.5f * x * x);
    Floats h = t * -2.91150726e-2f + 1.43818687e-1f;
    h = h * t - 2.55391552e-1f;
    h = h * t + 1.58797156e-1f;
    h = h * t - 2.28438137e-2f;
    h = h * t + 1.05392301e-1f;
    h = h * t + 1.19863052e-1f;
    h = h * t + 1.39857567e-1f;
    h = h * t + 1.3962166e-1f;
    const Floats tail = e * (h * t);
    return {x < Floats{} ? tail : 1.0f - tail, e * 0.398942280f};
  }
  static Floats value(Floats x) { return x * normal(x).distribution; }
  static Slope slope(Floats x) {
    const Normal n = normal(x);
    return {x * n.distribution, n.distribution + x * n.density};
  }
};

struct GeluTanh {
  // Returns 2 u and its slope. Clamps x to [-16, 16], where s(2 u) is already 0 or 1.
  static Slope twice_u(Floats x) {
    const Floats high = all(16.0f), low = all(-16.0f);
    const Floats y = x > high ? high : (x < low ? low : x), square = y * y;
    return {y * (1.59576912f + 7.13548163e-2f * square), 1.59576912f + 2.14064449e-1f * square};
  }
  static Floats value(Floats x) { return x * sigmoid(twice_u(x).value); }
  static Slope slope(Floats x) {
    const Slope u = twice_u(x);
    const Floats s = sigmoid(u.value);
    return {x * s, s + x * (s * (1.0f - s) * u.slope)};
  }
};

template <class Body>
void with_activation(Activation activation, Body body) {
  switch (activation) {
    case Activation::kSilu:
      return body(Silu{});
    case Activation::kGelu:
      return body(Gelu{});
    case Activation::kGeluTanh:
      return body(GeluTanh{});
    case Activation::kRelu:
      return body(Relu{});
  }
}

void gated(Activation activation, Index rows, Index width, const float* gate, const float* up,
           Index stride, float* y) {
  with_activation(activation, [&](auto f) {
    for (Index row = 0; row < rows; ++row) {
      const float *g = gate + row * stride, *u = up + row * stride;
      float* out = y + row * width;
      each_vector(width, [&](Index i, auto part) {
        part.write(out + i, f.value(part.read(g + i)) * part.read(u + i));
      });
    }
  });
}

void gated_gradient(Activation activation, Index rows, Index width, float* gate, float* up,
                    Index stride, const float* dy) {
  with_activation(activation, [&](auto f) {
    for (Index row = 0; row < rows; ++row) {
      float *g = gate + row * stride, *u = up + row * stride;
      const float* d = dy + row * width;
      each_vector(width, [&](Index i, auto part) {
        const Slope of = f.slope(part.read(g + i));
        const Floats gradient = part.read(d + i);
        part.write(g + i, gradient * part.read(u + i) * of.slope);
        part.write(u + i, gradient * of.value);
      });
    }
  });
}

void activation(Activation activation, Index size, const float* x, float* y) {
  with_activation(activation, [&](auto f) {
    each_vector(size, [&](Index i, auto part) { part.write(y + i, f.value(part.read(x + i))); });
  });
}

void activation_gradient(Activation activation, Index size, float* x, const float* dy) {
  with_activation(activation, [&](auto f) {
    each_vector(size, [&](Index i, auto part) {
      part.write(x + i, part.read(dy + i) * f.slope(part.read(x + i)).slope);
    });
  });
}

}  // namespace
}  // namespace sluice::ops
