#include <ferry/tensor.h>

#include "src/base/check.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {

const Shape& Tensor::shape() const { return impl_->shape; }
const Strides& Tensor::strides() const { return impl_->strides; }
DType Tensor::dtype() const { return impl_->dtype; }
Device Tensor::device() const { return impl_->device; }
bool Tensor::is_contiguous() const { return impl_->is_contiguous(); }

std::int64_t Tensor::size(int axis) const {
  const int wrapped = axis < 0 ? axis + rank() : axis;
  FERRY_CHECK(wrapped >= 0 && wrapped < rank(), InvalidArgument, "size: axis {} does not exist in shape {}", axis,
              to_string(shape()));
  return shape()[wrapped];
}

std::string Tensor::name() const {
  if (impl_->name) return *impl_->name;
  return fmt::format("{}_{}", impl_->producer, impl_->number);
}

Tensor named(const Tensor& tensor, std::string name) {
  FERRY_CHECK(tensor.defined(), InvalidArgument, "named: an undefined tensor cannot be called '{}'", name);
  tensor.impl()->name = std::make_unique<std::string>(std::move(name));
  return tensor;
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

std::shared_ptr<TensorImpl> make_view(const TensorImpl& base, const Shape& shape, const Strides& strides,
                                      std::int64_t offset) {
  auto view = make_cell<TensorImpl>(shape, strides, base.dtype, base.device);
  view->offset = offset;
  view->is_view = true;
  view->storage = base.storage;
  view->producer = base.producer;
  view->number = base.number;
  if (base.name) view->name = std::make_unique<std::string>(*base.name);
  return view;
}

bool is_dense(const Shape& shape, const Strides& strides) {
  if (shape.product() == 0) return true;
  // Each round finds the axis that continues the run of elements covered so far.
  std::uint32_t covered = 0;
  std::int64_t run = 1;
  const int rank = shape.rank();
  for (int round = 0; round < rank; ++round) {
    for (int i = 0; i < rank; ++i) {
      if (((covered >> i) & 1u) == 0 && (shape[i] == 1 || strides[i] == run)) {
        covered |= 1u << i;
        run *= shape[i];
        break;
      }
    }
  }
  return run == shape.product() && covered == (1u << rank) - 1;
}

}  // namespace ferry
