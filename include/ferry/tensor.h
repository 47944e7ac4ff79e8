// Tensor: a strided view of a Storage, with reverse-mode autograd.
//
// A Tensor is a reference: copying one copies a pointer, and views share storage. It has a home device, where the op
// that made it ran; its bytes may be valid elsewhere too, and ops bring them where they are needed.
//
// Thread-safety: distinct tensors may be used from distinct threads. One tensor may be read from several threads;
// writing to it (in-place ops, backward into its gradient) needs outside synchronisation.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ferry/device.h>
#include <ferry/dtype.h>
#include <ferry/error.h>
#include <ferry/shape.h>

namespace ferry {

struct TensorImpl;
struct RowSparse;

struct BackwardOptions {
  bool retain_graph = false;  // false: saved tensors are released as backward passes; a second backward is an error
};

class Tensor {
 public:
  using Where = std::source_location;

  Tensor() = default;  // undefined: stands for "no tensor" in optional arguments

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }

  // Requires for all below: defined().
  const Shape& shape() const;
  const Strides& strides() const;
  int rank() const { return shape().rank(); }
  // Negative axes count from the back. Throws: InvalidArgument for an axis that does not exist.
  std::int64_t size(int axis) const;
  std::int64_t numel() const { return shape().product(); }
  DType dtype() const;
  Device device() const;
  bool is_contiguous() const;
  // Bytes of the elements this view shows.
  Bytes nbytes() const { return Bytes{numel() * size_of(dtype())}; }

  // The name given with named(), else "<op>_<n>".
  std::string name() const;

  // --- values -------------------------------------------------------------------------------------------------------

  // All elements in row-major order; waits for them. Counted in reports as `fetch`. In timing-only mode: zeros.
  // Throws: InvalidArgument when T is not the tensor's dtype, and what queued work raised (such as a bad index).
  template <class T>
  std::vector<T> to_vector(Where where = Where::current()) const;
  // The value of a one-element tensor of any dtype. Throws: ShapeError for more or fewer elements.
  double item(Where where = Where::current()) const;

  // A copy on another device (this tensor when it lives there). Asynchronous: reading a copy on the CPU waits for it.
  Tensor to(Device device, Where where = Where::current()) const;
  // Converted elements (this tensor when it has that dtype). Differentiable among floating types.
  Tensor to(DType dtype, Where where = Where::current()) const;
  // Dense row-major elements (this tensor when it has them).
  Tensor contiguous(Where where = Where::current()) const;

  // --- autograd -----------------------------------------------------------------------------------------------------

  bool requires_grad() const;
  // Throws: InvalidArgument for a dtype without gradients, or when a result of an op is asked to stop requiring one.
  Tensor& set_requires_grad(bool value = true);
  // Made by no differentiable op.
  bool is_leaf() const;
  // Accumulated gradient of a leaf, dense (a row-sparse one is made dense); undefined before the first backward.
  Tensor grad(Where where = Where::current()) const;
  // Accumulated gradient when it is row-sparse.
  std::optional<RowSparse> row_sparse_grad() const;
  bool has_grad() const;
  // Drops the gradient.
  void zero_grad();
  // Accumulates d(this)/d(leaf) into every leaf that requires grad. A tensor of more than one element needs the
  // gradient to start from. Throws: ShapeError, InvalidArgument (no graph, graph already released, a saved tensor that
  // was changed in place).
  void backward(const Tensor& gradient = {}, BackwardOptions options = {}, Where where = Where::current()) const;
  // The same elements, outside the graph.
  Tensor detach() const;

  // --- in place: each changes this tensor's elements and returns it -------------------------------------------------
  // They run where the tensor lives. Throws: InvalidArgument on a leaf that requires grad outside a NoGrad scope.
  Tensor& add_(const Tensor& other, Where where = Where::current());
  Tensor& sub_(const Tensor& other, Where where = Where::current());
  Tensor& mul_(const Tensor& other, Where where = Where::current());
  Tensor& mul_(double value, Where where = Where::current());
  Tensor& fill_(double value, Where where = Where::current());
  // Copies other's elements, converting; shapes must be equal.
  Tensor& copy_(const Tensor& other, Where where = Where::current());

  // For the library's own sources.
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& shared_impl() const { return impl_; }

 private:
  // Writes numel() elements, row-major, to `destination`.
  void fetch(void* destination, DType expected, Where where) const;

  std::shared_ptr<TensorImpl> impl_;
};

// A gradient of a table that touches few rows: values[i] belongs to row rows[i] of a dense [V, D] tensor. Rows may
// repeat, their values then add up; row -1 is padding and counts for nothing.
struct RowSparse {
  Tensor rows;    // i64 or i32 [n]
  Tensor values;  // [n, D]
  Shape shape;    // [V, D]

  // Distinct rows ascending, padding at the end.
  RowSparse coalesced(std::source_location where = std::source_location::current()) const;
  Tensor dense(std::source_location where = std::source_location::current()) const;
};

// Gives a tensor the name that reports and errors show. Returns the same tensor.
Tensor named(const Tensor& tensor, std::string name);

// A tensor in host memory with a copy of `values`, row-major; ops elsewhere bring it there.
// Throws: ShapeError when shape.product() is not values.size().
Tensor from_host(const void* values, DType dtype, const Shape& shape,
                 std::source_location where = std::source_location::current());
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape,
                   std::source_location where = std::source_location::current()) {
  if (shape.product() != static_cast<std::int64_t>(values.size())) {
    throw ShapeError("from_vector: " + std::to_string(values.size()) + " values do not fill a tensor of shape " +
                     to_string(shape));
  }
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<std::uint8_t> bytes(values.begin(), values.end());
    return from_host(bytes.data(), DType::boolean, shape, where);
  } else {
    return from_host(values.data(), dtype_of<T>, shape, where);
  }
}
template <class T>
Tensor from_vector(const std::vector<T>& values, std::source_location where = std::source_location::current()) {
  return from_vector(values, Shape{static_cast<std::int64_t>(values.size())}, where);
}

template <class T>
std::vector<T> Tensor::to_vector(Where where) const {
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(numel()));
    fetch(bytes.data(), DType::boolean, where);
    return std::vector<bool>(bytes.begin(), bytes.end());
  } else {
    std::vector<T> values(static_cast<std::size_t>(numel()));
    fetch(values.data(), dtype_of<T>, where);
    return values;
  }
}

}  // namespace ferry
