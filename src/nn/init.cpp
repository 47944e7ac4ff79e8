#include <ferry/init.h>

#include <cmath>
#include <numbers>
#include <vector>

#include <ferry/device_guard.h>
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include "placement/placement.h"
#include "src/base/check.h"
#include "src/runtime/runtime_core.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::init {
namespace {

struct Fans {
  double in, out;
};

Fans fans_of(const Tensor& tensor, std::string_view name) {
  FERRY_CHECK(tensor.rank() >= 2, ShapeError, "{}: '{}' is {}; fans need at least 2 axes", name, tensor.name(),
              describe(tensor));
  const double field = static_cast<double>(tensor.numel()) / static_cast<double>(tensor.size(0) * tensor.size(1));
  return {static_cast<double>(tensor.size(1)) * field, static_cast<double>(tensor.size(0)) * field};
}

// Calls draw() outside the graph on the tensor's device, wherever that is, and puts its result there.
template <class F>
void fill(const Tensor& tensor, F&& draw) {
  const NoGrad no_grad;
  const placement::InheritedPlacement here(tensor.device());
  Tensor(tensor).copy_(draw());
}

double kaiming_deviation(const Tensor& tensor, const KaimingOptions& options, std::string_view name) {
  const Fans fans = fans_of(tensor, name);
  return std::sqrt(2 / ((1 + options.slope * options.slope) * (options.fan == Fan::in ? fans.in : fans.out)));
}

double xavier_deviation(const Tensor& tensor, double gain, std::string_view name) {
  const Fans fans = fans_of(tensor, name);
  return gain * std::sqrt(2 / (fans.in + fans.out));
}

// w (w …) with the highest power's factor first.
Tensor polynomial(const Tensor& w, const std::vector<double>& factors) {
  Tensor y = full(w.shape(), factors[0], w.dtype());
  for (std::size_t i = 1; i < factors.size(); ++i) y = y * w + factors[i];
  return y;
}

// erf⁻¹ for |x| up to erf(3 / √2) (Giles 2011, single precision, the branch w < 5, which reaches to 0.9966, and the
// other beyond).
Tensor inverse_erf(const Tensor& x) {
  const Tensor w = neg(log(mul(add(x, 1), rsub(x, 1))));
  const Tensor centre = polynomial(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                                             0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const Tensor tail = polynomial(sqrt(maximum(w, full({}, 5, w.dtype()))) - 3.0,
                                 {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                  -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  const Tensor is_tail = greater(w, full({}, 5, w.dtype())).to(w.dtype());
  return x * (centre + is_tail * (tail - centre));
}

}  // namespace

void constant(const Tensor& tensor, double value) {
  const NoGrad no_grad;
  Tensor(tensor).fill_(value);
}

void uniform(const Tensor& tensor, double low, double high) {
  fill(tensor, [&] { return ferry::uniform(tensor.shape(), low, high, tensor.dtype()); });
}

void normal(const Tensor& tensor, double mean, double deviation) {
  fill(tensor, [&] { return ferry::normal(tensor.shape(), mean, deviation, tensor.dtype()); });
}

void truncated_normal(const Tensor& tensor, double mean, double deviation, double low, double high) {
  FERRY_CHECK(deviation > 0 && low < high, InvalidArgument,
              "truncated_normal: the deviation {} is not positive, or [{}, {}] is empty", deviation, low, high);
  const double first = std::max((low - mean) / deviation, -5.0), last = std::min((high - mean) / deviation, 5.0);
  FERRY_CHECK(first < 3 && last > -3, InvalidArgument,
              "truncated_normal: [{}, {}] lies more than three deviations of {} from the mean {}", low, high, deviation,
              mean);
  const DType type = tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
  fill(tensor, [&] {
    const Tensor u = ferry::uniform(tensor.shape(), std::erf(first / std::numbers::sqrt2),
                                    std::erf(last / std::numbers::sqrt2), type);
    const Tensor z = inverse_erf(u) * (deviation * std::numbers::sqrt2) + mean;
    return minimum(maximum(z, full({}, low, type)), full({}, high, type));
  });
}

void xavier_uniform(const Tensor& tensor, double gain) {
  const double bound = std::numbers::sqrt3 * xavier_deviation(tensor, gain, "xavier_uniform");
  uniform(tensor, -bound, bound);
}

void xavier_normal(const Tensor& tensor, double gain) {
  normal(tensor, 0, xavier_deviation(tensor, gain, "xavier_normal"));
}

void kaiming_uniform(const Tensor& tensor, const KaimingOptions& options) {
  const double bound = std::numbers::sqrt3 * kaiming_deviation(tensor, options, "kaiming_uniform");
  uniform(tensor, -bound, bound);
}

void kaiming_normal(const Tensor& tensor, const KaimingOptions& options) {
  normal(tensor, 0, kaiming_deviation(tensor, options, "kaiming_normal"));
}

void orthogonal(const Tensor& tensor, double gain) {
  fans_of(tensor, "orthogonal");
  if (!current_core()->options().values || tensor.numel() == 0) return normal(tensor, 0, gain);
  const auto rows = static_cast<std::size_t>(tensor.size(0));
  const auto columns = static_cast<std::size_t>(tensor.numel()) / rows;
  const bool wide = rows <= columns;
  const std::size_t count = wide ? rows : columns, length = wide ? columns : rows;
  const NoGrad no_grad;
  const DeviceGuard<cpu> on_host;
  std::vector<double> vectors =
      ferry::normal({static_cast<std::int64_t>(count * length)}, 0, 1, DType::f64).to_vector<double>();
  // Gram-Schmidt, each vector against the ones before it, twice for accuracy.
  for (std::size_t i = 0; i < count; ++i) {
    double* v = &vectors[i * length];
    for (std::size_t j = 0; j < 2 * i; ++j) {
      const double* u = &vectors[(j % i) * length];
      double dot = 0;
      for (std::size_t k = 0; k < length; ++k) dot += u[k] * v[k];
      for (std::size_t k = 0; k < length; ++k) v[k] -= dot * u[k];
    }
    double square = 0;
    for (std::size_t k = 0; k < length; ++k) square += v[k] * v[k];
    for (std::size_t k = 0; k < length; ++k) v[k] /= std::sqrt(square);
  }
  Tensor matrix = from_vector(vectors, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)});
  if (!wide) matrix = transpose(matrix);
  Tensor(tensor).copy_(reshape(matrix * gain, tensor.shape()));
}

}  // namespace ferry::init
