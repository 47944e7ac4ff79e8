// What a backend's kernel receives. A kernel is a plain function of a KernelContext: it reads the input views, writes
// the output views and touches nothing else, so that a driver may run it now, queue it or only log it.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include <ferry/dtype.h>
#include <ferry/shape.h>
#include "src/base/check.h"

namespace ferry {

// A strided array in one device's memory. `data` is null for an optional argument that was not given and for an
// array of no elements.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  bool given = false;  // false: the optional argument was left out
  Shape shape;
  Strides strides;  // in elements; 0 repeats along that axis

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  std::int64_t numel() const { return shape.product(); }
  bool is_contiguous() const { return strides == contiguous_strides(shape) || numel() <= 1; }
};

// An op's parameters that are not tensors: one trivially copyable struct of src/ops/attributes.h, held inline so that
// it can be queued, logged and replayed without knowing the op.
class Attributes {
 public:
  static constexpr std::size_t kCapacity = 320;

  Attributes() = default;
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Attributes>) Attributes(const T& value)
      : size_(sizeof(T)), tag_(&kTag<T>) {  // NOLINT(google-explicit-constructor)
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kCapacity && alignof(T) <= 8);
    std::memcpy(bytes_, &value, sizeof(T));
  }
  Attributes(const Attributes& other) : size_(other.size_), tag_(other.tag_) {
    std::memcpy(bytes_, other.bytes_, size_);
  }
  Attributes& operator=(const Attributes& other) {
    size_ = other.size_;
    tag_ = other.tag_;
    std::memmove(bytes_, other.bytes_, size_);
    return *this;
  }

  // Requires: the block holds a T.
  template <class T>
  const T& as() const {
    FERRY_CHECK(tag_ == &kTag<T>, InvalidArgument, "attributes hold another type than the kernel asked for");
    return *std::launder(reinterpret_cast<const T*>(bytes_));
  }
  bool empty() const { return size_ == 0; }

 private:
  template <class T>
  static inline const char kTag = 0;

  // Before the bytes, of which few are used.
  std::uint32_t size_ = 0;
  const char* tag_ = nullptr;
  alignas(8) std::byte bytes_[kCapacity];
};

// Requires: inputs, outputs and attributes as the op's schema (src/ops) states them; the dispatcher has checked them.
// Throws (host kernels): InvalidArgument for values only the kernel can see, such as an embedding index out of
// range, before it writes anything.
struct KernelContext {
  std::string_view op;
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Attributes& attributes;
  void* stream = nullptr;  // the vendor's stream handle (cudaStream_t) where there is one

  const TensorView& in(std::size_t i) const { return inputs[i]; }
  const TensorView& out(std::size_t i = 0) const { return outputs[i]; }
  bool has_input(std::size_t i) const { return i < inputs.size() && inputs[i].given; }
  bool has_output(std::size_t i) const { return i < outputs.size() && outputs[i].given; }
};

using Kernel = void (*)(const KernelContext&);

// One line of a backend's kernel list.
struct KernelEntry {
  std::string_view op;
  Kernel kernel;
};

// Work of one op call, for the roofline of a device spec.
enum class OpClass : std::uint8_t {
  matmul,
  convolution,
  elementwise,
  reduction,
  normalization,
  pooling,
  gather,
  fill,
  copy,
  metadata
};
constexpr int kOpClassCount = 10;

// "matmul", "convolution", …
std::string_view name_of(OpClass op_class);

struct Cost {
  OpClass op_class = OpClass::elementwise;
  double flops = 0;
  double bytes = 0;  // read and written
  DType dtype = DType::f32;
};

}  // namespace ferry
