#include "src/backends/cpu/float_views.h"

#include <algorithm>
#include <array>

#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {
namespace {

constexpr std::size_t kMaxArguments = 8;

bool has_strides(const TensorView& view, const Strides& strides) {
  for (int i = 0; i < view.shape.rank(); ++i) {
    if (view.shape[i] != 1 && view.strides[i] != strides[i]) return false;
  }
  return true;
}

// Whether the elements fill one block of memory, in whatever order of axes.
bool is_dense(const TensorView& view) {
  std::int64_t filled = 1;
  for (int found = 0; found < view.shape.rank(); ++found) {
    int next = -1;
    for (int axis = 0; axis < view.shape.rank(); ++axis) {
      if (view.shape[axis] != 1 && view.strides[axis] == filled) next = axis;
    }
    if (next < 0) break;
    filled *= view.shape[next];
  }
  return filled == view.numel();
}

bool is_16_bit(const TensorView& view) { return view.given && (view.dtype == DType::f16 || view.dtype == DType::bf16); }

std::size_t f32_size(const TensorView& view) {
  constexpr std::size_t kAlignment = 64;
  const auto size = static_cast<std::size_t>(view.numel()) * sizeof(float);
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void convert(std::string_view op, const TensorView& from, const TensorView& to) {
  const Attributes attributes(ops::CopyAttributes{.dtype = to.dtype});
  copy({.op = op, .inputs = std::span(&from, 1), .outputs = std::span(&to, 1), .attributes = attributes});
}

bool is_channels_last(const TensorView& image) { return has_strides(image, channels_last_strides(image.shape)); }

Strides image_strides(std::string_view op, const TensorView& image) {
  FERRY_CHECK(image.shape.rank() == 4, ShapeError, "{}: expected an image [N, C, H, W], got {}", op,
              to_string(image.shape));
  if (is_channels_last(image)) return channels_last_strides(image.shape);
  const Strides contiguous = contiguous_strides(image.shape);
  FERRY_CHECK(image.numel() == 0 || has_strides(image, contiguous), InvalidArgument,
              "{}: the image {} with strides {} is dense neither in contiguous nor in channels-last order", op,
              to_string(image.shape), to_string(image.strides));
  return contiguous;
}

TensorView in_order_of(std::string_view op, const TensorView& view, const TensorView& like, dnn::Buffer buffer) {
  const bool channels_last = view.shape.rank() == 4 && is_channels_last(like);
  TensorView result = view;
  result.strides = channels_last ? channels_last_strides(view.shape) : contiguous_strides(view.shape);
  if (has_strides(view, result.strides) || view.numel() == 0) return result;
  result.data = dnn::work_buffer(buffer, static_cast<std::size_t>(view.numel() * size_of(view.dtype)));
  convert(op, view, result);
  return result;
}

void copy_contiguous(std::string_view op, const TensorView& from, void* data) {
  TensorView to = from;
  to.data = data;
  to.strides = contiguous_strides(from.shape);
  convert(op, from, to);
}

void run_in_f32(const KernelContext& context, Kernel kernel) {
  std::array<TensorView, kMaxArguments> views;
  const std::size_t inputs = context.inputs.size();
  const std::size_t count = inputs + context.outputs.size();
  FERRY_CHECK(count <= kMaxArguments, InvalidArgument, "{}: {} arguments are too many to convert", context.op, count);
  std::copy(context.inputs.begin(), context.inputs.end(), views.begin());
  std::copy(context.outputs.begin(), context.outputs.end(), views.begin() + static_cast<std::ptrdiff_t>(inputs));

  std::size_t size = 0;
  for (std::size_t i = 0; i < count; ++i) size += is_16_bit(views[i]) ? f32_size(views[i]) : 0;
  std::byte* place = dnn::work_buffer(dnn::Buffer::conversion, size);
  for (std::size_t i = 0; i < count; ++i) {
    TensorView& view = views[i];
    if (!is_16_bit(view)) continue;
    const TensorView original = view;
    view.dtype = DType::f32;
    view.data = place;
    place += f32_size(original);
    if (!is_dense(original)) view.strides = contiguous_strides(view.shape);
    if (i < inputs) convert(context.op, original, view);
  }
  kernel({.op = context.op,
          .inputs = std::span(views).first(inputs),
          .outputs = std::span(views).subspan(inputs, context.outputs.size()),
          .attributes = context.attributes});
  for (std::size_t i = inputs; i < count; ++i) {
    if (is_16_bit(context.outputs[i - inputs])) convert(context.op, views[i], context.outputs[i - inputs]);
  }
}

}  // namespace ferry::cpu_backend
