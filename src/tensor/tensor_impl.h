// What a Tensor points to: a strided view of a Storage, where it was made, and its place in the autograd graph.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <ferry/tensor.h>
#include "src/tensor/cell_cache.h"
#include "src/tensor/storage.h"

namespace ferry {

// A tensor's part in autograd, known to src/autograd alone.
struct AutogradMeta {
  virtual ~AutogradMeta() = default;
  bool requires_grad = false;
};

struct TensorImpl {
  Shape shape;
  Strides strides;          // in elements
  std::int64_t offset = 0;  // of the first element in the storage, in elements
  DType dtype = DType::f32;
  Device device;         // home: where the op that made it ran
  bool is_view = false;  // shares its storage with the tensor it was made from
  std::shared_ptr<Storage> storage;
  std::unique_ptr<AutogradMeta> autograd;  // null: does not require grad

  // Naming.
  std::string_view producer;          // op, static storage
  std::uint64_t number = 0;           // n of "<op>_<n>", unique in the runtime
  std::unique_ptr<std::string> name;  // given by the user

  TensorImpl(const Shape& the_shape, const Strides& the_strides, DType the_dtype, Device the_device)
      : shape(the_shape), strides(the_strides), dtype(the_dtype), device(the_device) {}
  bool requires_grad() const { return autograd != nullptr && autograd->requires_grad; }
  bool is_contiguous() const { return strides == contiguous_strides(shape) || shape.product() <= 1; }
};

// "f32 [2, 3]", for messages.
std::string describe(const Tensor& tensor);

// `tensor`'s elements under another shape, outside the graph.
std::shared_ptr<TensorImpl> make_view(const TensorImpl& base, const Shape& shape, const Strides& strides,
                                      std::int64_t offset);

// Whether a tensor of `shape` and `strides` covers its elements without gaps or overlap, in any order of axes.
bool is_dense(const Shape& shape, const Strides& strides);

}  // namespace ferry
