#include "src/optim/gradients.h"

#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include <ferry/optim.h>
#include "placement/placement.h"
#include "src/autograd/own_gradient.h"
#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/ops/optimizer.h"
#include "src/runtime/autocast.h"
#include "src/runtime/phase.h"

namespace ferry::optim {

std::map<Device, std::vector<Tensor>> own_gradients(const std::vector<Tensor>& parameters, bool coalesces,
                                                    std::source_location where) {
  std::map<Device, std::vector<Tensor>> gradients;
  for (const Tensor& parameter : parameters) {
    FERRY_CHECK(parameter.defined(), InvalidArgument, "a parameter is an undefined tensor");
    Tensor gradient = autograd::own_gradient(parameter, coalesces, where);
    if (gradient.defined()) gradients[gradient.device()].push_back(std::move(gradient));
  }
  return gradients;
}

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, std::source_location where) {
  FERRY_CHECK(max_norm > 0, InvalidArgument, "clip_grad_norm: max_norm {} is not positive", max_norm);
  const NoGrad no_grad;
  const PhaseScope phase(trace::Phase::optimizer);
  const RestoredAutocast own_types(nullptr);
  const auto gradients = own_gradients(parameters, true, where);
  if (gradients.empty()) return zeros({1}, DType::f32, where);
  Tensor total;
  for (const auto& [device, tensors] : gradients) {
    const placement::InheritedPlacement here(device);
    const Tensor squares = ops::square_sum(tensors, where);
    if (!total.defined()) {
      total = squares;
    } else if (total.dtype() == squares.dtype()) {
      total = add(total, squares, where);
    } else {
      total = add(total.to(DType::f32, where), squares.to(DType::f32, where), where);
    }
  }
  const placement::InheritedPlacement here(gradients.begin()->first);
  const ops::RuntimeOf runtime(total);
  const Tensor norm = sqrt(total, where);
  const Tensor factor = minimum(rdiv(add(norm, 1e-6, where), max_norm, where), ones_like(norm, where), where);
  const Tensor as_f32 = factor.to(DType::f32, where);
  for (const auto& [device, tensors] : gradients) ops::scale_all(tensors, as_f32, where);
  return norm;
}

void clip_grad_value(const std::vector<Tensor>& parameters, double limit, std::source_location where) {
  FERRY_CHECK(limit > 0, InvalidArgument, "clip_grad_value: limit {} is not positive", limit);
  const NoGrad no_grad;
  const PhaseScope phase(trace::Phase::optimizer);
  for (const auto& [device, tensors] : own_gradients(parameters, true, where)) {
    ops::clamp_all(tensors, limit, where);
  }
}

}  // namespace ferry::optim
