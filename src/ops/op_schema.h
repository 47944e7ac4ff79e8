// OpSchema: everything about an op that does not depend on a backend. One constant per op, defined in the op's file and
// listed once in src/ops/op_list.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <ferry/tensor.h>
#include "src/device/kernel.h"

namespace ferry::ops {

class InferContext;
class GradientContext;

// Bit i stands for argument i.
using ArgumentMask = std::uint32_t;

// The type that an op's floating inputs (f64 aside) get inside an Autocast scope; every differentiable op states one.
enum class AutocastRule : std::uint8_t {
  unstated,
  as_is,   // what they come in: indifferent to precision, or f32 inside whatever the inputs are
  low,     // the scope's 16-bit type: products with many terms, which the hardware sums in f32
  f32,     // f32: results that 16 bits would round or overflow
  widest,  // the widest of them: ops that want one type for all
};

struct OpSchema {
  std::string_view name;
  OpClass op_class = OpClass::elementwise;
  std::array<std::string_view, 8> arguments{};  // names for messages; a variadic op repeats the last
  std::string_view kernel{};                    // kernel name where it is not the op's: in-place forms

  // Checks the inputs and states the outputs.
  void (*infer)(InferContext&) = nullptr;

  // Memory kinds.
  ArgumentMask host_inputs = 0;      // values are read in host memory, wherever the op runs
  ArgumentMask metadata_inputs = 0;  // only shape and dtype are read; the bytes stay where they are
  bool runs_on_cpu = false;          // writes host memory or needs no device: always placed on the CPU
  ArgumentMask mutates = 0;          // inputs written in place; outputs alias them, in order
  bool follows_first_input = false;  // runs where its first input lives, whatever the guard says
  // Many tensors in one call: the inputs come in groups of this many, names and masks are those of a place in each
  // group, and infer states no outputs. 0: the inputs are one group.
  std::uint8_t group = 0;
  // Mutates what is kept between iterations, such as running statistics: left out when a region is computed again.
  bool updates_state = false;
  // Layouts; an input that does not have it is copied first.
  ArgumentMask contiguous = 0;    // dense row-major
  ArgumentMask image = 0;         // dense row-major or channels-last
  bool broadcasts = false;        // inputs are expanded to the first output's shape
  bool broadcasts_batch = false;  // the same for all axes but the last two

  // Floating-point operations and bytes read and written; null: one operation an output element, all bytes of all
  // views.
  double (*flops)(const InferContext&) = nullptr;
  double (*bytes)(const InferContext&) = nullptr;

  // Gradients of inputs from gradients of outputs, by calls of public ops; null: not differentiable.
  void (*gradient)(GradientContext&) = nullptr;
  ArgumentMask saved_inputs = 0;  // what gradient reads
  ArgumentMask saved_outputs = 0;

  AutocastRule autocast = AutocastRule::unstated;

  // Position in all_ops(), set there.
  mutable std::int16_t slot = -1;

  // Where input i stands in its group.
  std::size_t place(std::size_t i) const { return group == 0 ? i : i % group; }
  std::string_view argument(std::size_t input) const {
    const std::size_t i = place(input);
    return i < arguments.size() && !arguments[i].empty() ? arguments[i] : arguments[0];
  }
};

constexpr bool has(ArgumentMask mask, std::size_t i) { return i < 32 && ((mask >> i) & 1u) != 0; }

// A contiguous or otherwise dense output; strides are stated by infer.
struct OutputSpec {
  bool given = true;  // false: an optional output that this call does not need
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;
};

using TensorPointers = std::span<const Tensor* const>;

// Reads the values of a host input; implemented by the dispatcher.
class HostValues {
 public:
  virtual ~HostValues() = default;
  virtual std::vector<std::int64_t> read(std::size_t input) = 0;
};

// What infer sees of a call, and where it states the outputs.
class InferContext {
 public:
  static constexpr std::size_t kMaxOutputs = 4;

  InferContext(const OpSchema& op_schema, TensorPointers call_inputs, Attributes& call_attributes, HostValues* host)
      : schema(op_schema), inputs(call_inputs), attributes(call_attributes), host_(host) {}

  const OpSchema& schema;
  TensorPointers inputs;
  Attributes& attributes;  // infer may fill in what only host inputs tell

  bool given(std::size_t i) const { return i < inputs.size() && inputs[i]->defined(); }
  const Tensor& in(std::size_t i) const { return *inputs[i]; }
  const Shape& shape(std::size_t i) const { return inputs[i]->shape(); }
  DType dtype(std::size_t i) const { return inputs[i]->dtype(); }
  std::vector<std::int64_t> host_values(std::size_t i) { return host_->read(i); }

  void add_output(const Shape& output_shape, DType dtype, const Strides& strides) {
    new (&outputs_[sizeof(OutputSpec) * count_++]) OutputSpec{true, dtype, output_shape, strides};
  }
  void add_output(const Shape& output_shape, DType dtype) {
    add_output(output_shape, dtype, contiguous_strides(output_shape));
  }
  // An optional output that nobody needs.
  void add_no_output() { (new (&outputs_[sizeof(OutputSpec) * count_++]) OutputSpec)->given = false; }
  std::span<const OutputSpec> outputs() const {
    return {std::launder(reinterpret_cast<const OutputSpec*>(outputs_)), count_};
  }
  const OutputSpec& output(std::size_t i = 0) const { return outputs()[i]; }

  // Requirements; each throws naming op, argument and shapes.
  void require_given(std::size_t i) const;
  void require_float(std::size_t i) const;
  void require_integer(std::size_t i) const;  // i32 or i64
  void require_same_dtype(std::size_t i, std::size_t j) const;
  void require_rank(std::size_t i, int rank) const;
  // Optional argument i, when given, is [extent] of argument j's dtype (or f32 beside a 16-bit float).
  void require_vector(std::size_t i, std::int64_t extent, std::size_t j) const;
  // Both shapes in one ShapeError: "op: a is f32 [2], b is f32 [3]: why".
  [[noreturn]] void fail_shapes(std::size_t i, std::size_t j, std::string_view why) const;
  [[noreturn]] void fail_shape(std::size_t i, std::string_view why) const;

 private:
  HostValues* host_;
  // Room for the outputs, each made when it is added: most calls have one.
  static_assert(std::is_trivially_destructible_v<OutputSpec>);
  alignas(OutputSpec) std::byte outputs_[sizeof(OutputSpec) * kMaxOutputs];
  std::size_t count_ = 0;
};

// The shape that a and b broadcast to by NumPy's rule; false when they do not.
bool broadcast_shapes(const Shape& a, const Shape& b, Shape& result);

// Strides for an elementwise result: the input's order of axes when it is dense and of the result's shape.
Strides elementwise_strides(const Tensor& input, const Shape& result);

// Strides of an image result: channels-last where the input's memory is, else row-major.
Strides image_strides(const Tensor& input, const Shape& result);

// Wraps a negative axis. Throws: InvalidArgument naming the op.
int wrap_axis(std::string_view op, int axis, int rank);

}  // namespace ferry::ops
