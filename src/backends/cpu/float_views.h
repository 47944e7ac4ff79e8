// Views of 16-bit floats made f32 for kernels that compute in f32 only, and views in other memory orders.
#pragma once

#include <string_view>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// Whether the view is dense in channels-last order. Extents of 1 fit any stride, so a view may be dense in both orders.
// Requires: rank 4.
bool is_channels_last(const TensorView& image);

// The strides of a dense image in the order it has; those of the extents of 1 are made regular.
// Throws: InvalidArgument, naming the op, for an image that is dense in neither order.
Strides image_strides(std::string_view op, const TensorView& image);

namespace dnn {
enum class Buffer : std::uint8_t;
}
// The view in `like`'s order, contiguous or, for images, channels-last: itself, or a copy in a buffer of the calling
// thread (src/backends/cpu/dnn.h), which is asked for only then.
TensorView in_order_of(std::string_view op, const TensorView& view, const TensorView& like, dnn::Buffer buffer);

// Runs `kernel` on f32 copies of all f16 and bf16 arguments in the calling thread's conversion buffer, then converts
// the outputs back. Copies keep the order of dense inputs in memory; other inputs become contiguous.
void run_in_f32(const KernelContext& context, Kernel kernel);

// Copies between views of one shape, any strides and any dtypes.
void convert(std::string_view op, const TensorView& from, const TensorView& to);

// Copies a view of any strides into row-major memory of the same dtype.
void copy_contiguous(std::string_view op, const TensorView& from, void* data);

}  // namespace ferry::cpu_backend
