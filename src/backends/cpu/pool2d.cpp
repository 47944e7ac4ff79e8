#include "src/backends/cpu/pool2d.h"

#include <vector>

#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/parallel.h"
#include "src/base/check.h"

namespace ferry::cpu_backend {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements read a task

// The images of a pooling, split into planes: a batch entry where channels are innermost in all, else one channel.
struct Planes {
  TensorView x, y, index;  // index need not be given
  bool channels_last;

  std::int64_t count() const { return channels_last ? x.shape[0] : x.shape[0] * x.shape[1]; }
  std::int64_t lanes() const { return channels_last ? x.shape[1] : 1; }
  PoolPlane plane(const TensorView& view, std::int64_t i) const {
    if (!view.given) return {};
    const std::int64_t n = channels_last ? i : i / view.shape[1];
    const std::int64_t c = channels_last ? 0 : i % view.shape[1];
    const std::int64_t offset = (n * view.strides[0] + c * view.strides[1]) * size_of(view.dtype);
    return {view.as<std::byte>() + offset, view.strides[2], view.strides[3]};
  }
};

Planes make_planes(std::string_view op, TensorView x, TensorView y, TensorView index) {
  for (TensorView* view : {&x, &y, &index}) {
    if (view->given) view->strides = image_strides(op, *view);
  }
  const bool channels_last = is_channels_last(x) && is_channels_last(y) && (!index.given || is_channels_last(index));
  return {x, y, index, channels_last};
}

PoolAxis axis_of(const Planes& planes, const ops::Pool2dAttributes& a, int i) {
  return {planes.x.shape[i + 2], planes.y.shape[i + 2], a.kernel[i], a.stride[i], a.padding[i]};
}

enum class Pass : std::uint8_t { forward, backward };

// Runs `loop` on each row of the result's planes: y's forward, x's backward.
void run_rows(const Planes& planes, Pass pass, const ops::Pool2dAttributes& attributes, void (*loop)(const PoolRow&)) {
  const bool backward = pass == Pass::backward;
  const TensorView& result = backward ? planes.x : planes.y;
  if (result.numel() == 0) return;
  const std::int64_t rows = result.shape[2];
  const PoolAxis h = axis_of(planes, attributes, 0), w = axis_of(planes, attributes, 1);
  std::vector<PoolAxis::Range> columns;
  for (std::int64_t i = 0; i < result.shape[3]; ++i) columns.push_back(backward ? w.outputs(i) : w.window(i));
  const std::int64_t reads = planes.lanes() * result.shape[3] * attributes.kernel[0] * attributes.kernel[1];
  parallel_for(planes.count() * rows, std::max<std::int64_t>(1, kGrain / reads),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   loop({.h = h,
                         .w = w,
                         .lanes = planes.lanes(),
                         .row = i % rows,
                         .count_include_pad = attributes.count_include_pad,
                         .x = planes.plane(planes.x, i / rows),
                         .y = planes.plane(planes.y, i / rows),
                         .index = planes.plane(planes.index, i / rows),
                         .columns = columns.data()});
                 }
               });
}

// Whether the call was done by other means: on f32 copies of 16-bit floats.
bool done_in_f32(const KernelContext& context, Kernel self) {
  const DType dtype = context.out().dtype;
  FERRY_CHECK(is_floating(dtype), InvalidArgument, "{}: there is no kernel for {}", context.op, name_of(dtype));
  if (dtype == DType::f32 || dtype == DType::f64) return false;
  run_in_f32(context, self);
  return true;
}

// Which loop of a pair fits the index. Throws: InvalidArgument.
std::size_t index_kind(const KernelContext& context, const TensorView& index) {
  FERRY_CHECK(index.dtype == DType::u8 || index.dtype == DType::i32, InvalidArgument,
              "{}: the index must be u8 or i32, not {}", context.op, name_of(index.dtype));
  return index.dtype == DType::u8 ? 0 : 1;
}

const ops::Pool2dAttributes& attributes_of(const KernelContext& context) {
  return context.attributes.as<ops::Pool2dAttributes>();
}

}  // namespace

void max_pool2d(const KernelContext& context) {
  if (done_in_f32(context, max_pool2d)) return;
  const Planes planes = make_planes(context.op, context.in(0), context.out(0), context.out(1));
  const PoolLoops& loops = pool_loops(planes.y.dtype);
  run_rows(planes, Pass::forward, attributes_of(context), loops.max[index_kind(context, planes.index)]);
}

void max_pool2d_backward(const KernelContext& context) {
  if (done_in_f32(context, max_pool2d_backward)) return;
  const TensorView dy = in_order_of(context.op, context.in(0), context.out(), dnn::Buffer::operand);
  const Planes planes = make_planes(context.op, context.out(), dy, context.in(1));
  const PoolLoops& loops = pool_loops(planes.x.dtype);
  run_rows(planes, Pass::backward, attributes_of(context), loops.max_backward[index_kind(context, planes.index)]);
}

void avg_pool2d(const KernelContext& context) {
  if (done_in_f32(context, avg_pool2d)) return;
  const Planes planes = make_planes(context.op, context.in(0), context.out(), {});
  run_rows(planes, Pass::forward, attributes_of(context), pool_loops(planes.y.dtype).average);
}

void avg_pool2d_backward(const KernelContext& context) {
  if (done_in_f32(context, avg_pool2d_backward)) return;
  const TensorView dy = in_order_of(context.op, context.in(0), context.out(), dnn::Buffer::operand);
  const Planes planes = make_planes(context.op, context.out(), dy, {});
  run_rows(planes, Pass::backward, attributes_of(context), pool_loops(planes.x.dtype).average_backward);
}

}  // namespace ferry::cpu_backend
