// Tensor's reading, moving and making from host memory.
#include "src/runtime/values.h"

#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include "placement/placement.h"
#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/runtime/budget.h"
#include "src/runtime/copy_report.h"
#include "src/runtime/out_of_memory.h"
#include "src/tensor/grad_mode.h"

namespace ferry {
namespace {

RuntimeCore& core_of(const Tensor& tensor) { return static_cast<RuntimeCore&>(*tensor.impl()->storage->owner()); }

// Copies `tensor`'s elements in row-major order out of a host replica.
void gather(const TensorImpl& tensor, const std::byte* base, std::byte* destination) {
  const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
  const std::int64_t count = tensor.shape.product();
  const std::byte* first = base + tensor.offset * size_of(tensor.dtype);
  if (tensor.is_contiguous()) {
    if (count > 0) std::memcpy(destination, first, static_cast<std::size_t>(count) * size);
    return;
  }
  Dims index = Dims::filled(tensor.shape.rank(), 0);
  for (std::int64_t i = 0; i < count; ++i, destination += size) {
    std::int64_t at = 0;
    for (int axis = 0; axis < index.rank(); ++axis) at += index[axis] * tensor.strides[axis];
    std::memcpy(destination, first + at * size_of(tensor.dtype), size);
    for (int axis = index.rank() - 1; axis >= 0 && ++index[axis] == tensor.shape[axis]; --axis) index[axis] = 0;
  }
}

void check_host_read(RuntimeCore& core, const Replica& replica, const CopyReason& reason) {
  if (core.checker() == nullptr) return;
  const MemoryAccess access{replica.allocation.data, replica.allocation.size.count, false};
  core.checker()->host_access(reason.op, {&access, 1});
}

// A view that shows less than half of its storage is copied out on its device first, so that the rest stays there.
bool shows_a_small_part(const TensorImpl& tensor) {
  return tensor.shape.product() * size_of(tensor.dtype) * 2 < tensor.storage->size().count;
}

double number_at(const std::byte* data, DType dtype) {
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, data, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f32:
      return load(float{});
    case DType::f64:
      return load(double{});
    case DType::f16:
      return static_cast<float>(load(float16{}));
    case DType::bf16:
      return static_cast<float>(load(bfloat16{}));
    case DType::i32:
      return load(std::int32_t{});
    case DType::i64:
      return static_cast<double>(load(std::int64_t{}));
    case DType::u8:
    case DType::boolean:
      return load(std::uint8_t{});
  }
  return 0;
}

}  // namespace

std::vector<std::int64_t> read_integers(RuntimeCore& core, const TensorImpl& tensor, const CopyReason& reason) {
  const Replica& replica = bring(core, tensor, cpu::device, reason);
  check_host_read(core, replica, reason);
  const auto count = static_cast<std::size_t>(tensor.shape.product());
  std::vector<std::byte> bytes(count * static_cast<std::size_t>(size_of(tensor.dtype)));
  gather(tensor, static_cast<const std::byte*>(replica.allocation.data), bytes.data());
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (tensor.dtype == DType::i64) {
      std::memcpy(&values[i], &bytes[i * sizeof(std::int64_t)], sizeof(std::int64_t));
    } else {
      std::int32_t value = 0;
      std::memcpy(&value, &bytes[i * sizeof value], sizeof value);
      values[i] = value;
    }
  }
  return values;
}

std::span<const std::byte> host_bytes(const Tensor& tensor, std::string_view action, std::source_location where) {
  RuntimeCore& core = core_of(tensor);
  const ResidencyScope scope(core);
  FERRY_CHECK(core.options().values, InvalidArgument, "{}: '{}' has no values in timing-only mode", action,
              tensor.name());
  FERRY_CHECK(tensor.device().is_cpu() && tensor.is_contiguous(), InvalidArgument,
              "{}: '{}' ({}) must be contiguous and on the CPU", action, tensor.name(), describe(tensor));
  const CopyReason reason{action, where, trace::CopyCause::fetch};
  const Replica& replica = bring(core, *tensor.impl(), cpu::device, reason);
  check_host_read(core, replica, reason);
  const auto* data = static_cast<const std::byte*>(replica.allocation.data);
  return {data + tensor.impl()->offset * size_of(tensor.dtype()), static_cast<std::size_t>(tensor.nbytes().count)};
}

void Tensor::fetch(void* destination, DType expected, Where where) const {
  ops::located("to_vector", where, [&] {
    FERRY_CHECK(dtype() == expected, InvalidArgument, "to_vector: '{}' is {}, not {}; convert it with .to(dtype)",
                name(), describe(*this), name_of(expected));
  });
  RuntimeCore& core = core_of(*this);
  const bool values = core.options().values;
  if (!values) {
    if (profiler::Recorder* recorder = core.recorder()) recorder->count_unavailable_read();
  }
  if (numel() == 0) return;
  try {
    const ResidencyScope scope(core);
    Tensor source = *this;
    if (device().is_gpu() && shows_a_small_part(*impl_)) {
      const NoGrad no_grad;
      const placement::InheritedPlacement here(device());
      source = ops::copy_dense(*this, dtype(), where);
    }
    const CopyReason reason{"fetch", where, trace::CopyCause::fetch};
    // Without values too: the program waits for the copy all the same.
    const Replica& replica = bring(core, *source.impl(), cpu::device, reason);
    if (!values) {
      std::memset(destination, 0, static_cast<std::size_t>(nbytes().count));
      return;
    }
    check_host_read(core, replica, reason);
    gather(*source.impl(), static_cast<const std::byte*>(replica.allocation.data),
           static_cast<std::byte*>(destination));
  } catch (Error& error) {
    error.locate("fetch", where);
    throw;
  }
}

double Tensor::item(Where where) const {
  ops::located("item", where, [&] {
    FERRY_CHECK(numel() == 1, ShapeError, "item: '{}' is {}, which has {} elements instead of one", name(),
                describe(*this), numel());
  });
  std::byte bytes[sizeof(double)] = {};
  fetch(bytes, dtype(), where);
  return number_at(bytes, dtype());
}

namespace ops {

Tensor invoke_transfer(const OpSchema& schema, const Tensor& x, Device target, Where where) {
  located(schema.name, x, where, [&] { ferry::core_of(x).context(target); });
  RuntimeCore& core = ferry::core_of(x);
  if (x.device() == target) return x;
  try {
    Tensor source = x;
    if (shows_a_small_part(*x.impl())) {
      const NoGrad no_grad;
      const placement::InheritedPlacement here(x.device());
      source = copy_dense(x, x.dtype(), where);
    }
    auto moved = make_cell<TensorImpl>(source.shape(), source.strides(), source.dtype(), target);
    moved->offset = source.impl()->offset;
    moved->producer = schema.name;
    moved->number = core.next_number();
    moved->storage = transfer(core, *source.impl(), target, {schema.name, where, trace::CopyCause::transfer});
    Tensor result(std::move(moved));
    const Tensor* inputs[] = {&x};
    if (grad_mode() != GradMode::off) record_in_graph(schema, inputs, {}, where, {&result, 1});
    return result;
  } catch (Error& error) {
    error.locate(schema.name, where);
    throw;
  }
}

}  // namespace ops

Tensor from_host(const void* values, DType dtype, const Shape& shape, std::source_location where) {
  try {
    RuntimeCore& core = *current_core();
    auto tensor = make_cell<TensorImpl>(shape, contiguous_strides(shape), dtype, cpu::device);
    tensor->producer = "from_host";
    tensor->number = core.next_number();
    const Bytes size{shape.product() * size_of(dtype)};
    tensor->storage = allocate_storage(core, size, core.cpu());
    if (core.options().values && size.count > 0) {
      void* data = tensor->storage->find(cpu::device)->allocation.data;
      if (core.checker() != nullptr) {
        const MemoryAccess access{data, size.count, true};
        core.checker()->host_access("from_host", {&access, 1});
      }
      std::memcpy(data, values, static_cast<std::size_t>(size.count));
    }
    return Tensor(std::move(tensor));
  } catch (Error& error) {
    error.locate("from_host", where);
    throw;
  }
}

}  // namespace ferry
