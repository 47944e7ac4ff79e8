// What a gradient rule sees of the forward call, and where it puts its result.
#pragma once

#include <memory>
#include <source_location>
#include <span>
#include <vector>

#include <ferry/tensor.h>
#include "src/ops/op_schema.h"

namespace ferry::ops {

// A gradient: dense, row-sparse, or none.
struct Gradient {
  Tensor dense;
  std::shared_ptr<const RowSparse> sparse;

  Gradient() = default;
  Gradient(Tensor tensor) : dense(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  Gradient(RowSparse rows) : sparse(std::make_shared<RowSparse>(std::move(rows))) {}  // NOLINT
  bool defined() const { return dense.defined() || sparse != nullptr; }
};

// A tensor that backward needs, with the version it had.
struct SavedTensor {
  Tensor tensor;
  std::uint32_t version = 0;
};

// One forward call as the graph keeps it.
struct CallRecord {
  struct Input {
    Shape shape;
    DType dtype = DType::f32;
    Device device;
    bool given = false;
    bool needs_gradient = false;
    SavedTensor saved;
  };
  const OpSchema* schema = nullptr;
  Attributes attributes;
  std::source_location where;
  std::vector<Input> inputs;
  std::vector<SavedTensor> outputs;  // by output, undefined where not saved; empty when none is
};

class GradientContext {
 public:
  GradientContext(const CallRecord& call, std::span<const Tensor> output_gradients, std::span<Gradient> results)
      : call_(call), output_gradients_(output_gradients), results_(results) {}

  template <class T>
  const T& attributes() const {
    return call_.attributes.as<T>();
  }
  std::source_location where() const { return call_.where; }

  // Undefined when nothing flowed to that output.
  const Tensor& dy(std::size_t output = 0) const { return output_gradients_[output]; }
  bool needs(std::size_t input) const { return input < call_.inputs.size() && call_.inputs[input].needs_gradient; }
  // The optional argument was given.
  bool has_input(std::size_t i) const { return i < call_.inputs.size() && call_.inputs[i].given; }
  std::size_t input_count() const { return call_.inputs.size(); }
  const Shape& shape(std::size_t input) const { return call_.inputs[input].shape; }
  DType dtype(std::size_t input) const { return call_.inputs[input].dtype; }
  Device device(std::size_t input) const { return call_.inputs[input].device; }

  // Requires: in the schema's saved_inputs / saved_outputs. Throws: InvalidArgument when it was changed in place since.
  const Tensor& input(std::size_t i) const { return checked(call_.inputs[i].saved, call_.schema->argument(i)); }
  const Tensor& output(std::size_t i = 0) const { return checked(call_.outputs[i], "result"); }

  void set(std::size_t input, Gradient gradient) { results_[input] = std::move(gradient); }

 private:
  const Tensor& checked(const SavedTensor& saved, std::string_view what) const;

  const CallRecord& call_;
  std::span<const Tensor> output_gradients_;
  std::span<Gradient> results_;
};

// The gradient (dy, other) → dx of an elementwise op, by `in_place`, into dy's memory, where nobody else sees dy and it
// lies as `other` does; by `backward` into new memory otherwise.
Tensor elementwise_gradient(const GradientContext& context, const OpSchema& backward, const OpSchema& in_place,
                            const Tensor& other, const Attributes& attributes);

// Sums `gradient` over the axes along which `shape` was broadcast to it.
Tensor sum_to(const Tensor& gradient, const Shape& shape, std::source_location where);

}  // namespace ferry::ops
