// Autocast: ops inside the scope choose their type, so that a model with f32 parameters computes in 16 bits where that
// is fast and in f32 where it matters.
//
//   {
//     Autocast autocast;                       // bf16; {{.dtype = DType::f16}} with a GradScaler
//     loss = softmax_cross_entropy(model(x), labels);
//   }
//   loss.backward();                           // f32 gradients of f32 parameters
//
// Each op's schema states its class (src/ops/op_schema.h, AutocastRule); the classes are PyTorch's
// (https://pytorch.org/docs/stable/amp.html#op-specific-behavior):
//   - products of many terms (matmul, linear, convolutions, attention, recurrent layers) get the scope's type;
//   - what 16 bits would round or overflow (exp, log, pow, sums and means, softmax, losses, norms) gets f32, or keeps
//     f32 inside, where an op takes 16-bit inputs and states f32 statistics or results (batch_norm,
//     softmax_cross_entropy);
//   - ops that want one type for all (add, mul, concat) get the widest of their inputs, in place the written tensor's;
//   - the others run in the type they get.
// Casts are differentiable. f64 is left alone, and so are whole numbers. Backward runs in the types of forward, whether
// or not a scope stands around it.
//
// A parameter (a leaf that requires grad) is cast once in the outermost scope, until it is written; the casts live
// until the outermost scope ends.
//
// Thread-safety: a scope is its thread's. Scopes nest, the innermost counts; exceptions end them too.
#pragma once

#include <memory>

#include <ferry/dtype.h>

namespace ferry {

struct AutocastOptions {
  DType dtype = DType::bf16;  // bf16 or f16
  bool enabled = true;        // false: ops inside run in the types they get, as outside all scopes
  bool caches_parameters = true;
};

struct AutocastFrame;

class [[nodiscard]] Autocast {
 public:
  // Throws: InvalidArgument for another dtype than bf16 and f16.
  explicit Autocast(AutocastOptions options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::shared_ptr<const AutocastFrame> frame_;
  const AutocastFrame* outer_;
};

// Of the calling thread's innermost scope.
bool autocast_enabled();

}  // namespace ferry
