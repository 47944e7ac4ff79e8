// Batch normalisation and average pooling by cuDNN.
#include "src/backends/cuda/cudnn.h"
#include "src/backends/cuda/cudnn_library.h"
#include "src/backends/cuda/image.h"

namespace ferry::cuda_backend {
namespace {

// The thousands of a status are its category; "not supported" is an answer, not an error.
bool is_refusal(cudnnStatus_t status) { return static_cast<int>(status) / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000; }

// True when it was enqueued.
bool enqueued(const Cudnn& cudnn, cudnnStatus_t status, const char* call) {
  if (is_refusal(status)) return false;
  cudnn.require(status, call);
  return true;
}

Strides steps_of(const TensorView& view) {
  const Image image = image_of(view);
  return {image.n_step, image.c_step, image.h_step, image.w_step};
}

CudnnTensor image_tensor(const Cudnn& cudnn, const TensorView& view) {
  return {cudnn, view.dtype, view.shape, steps_of(view)};
}

// Of a value a channel, as cuDNN wants it beside images of `dtype`.
CudnnTensor channel_tensor(const Cudnn& cudnn, const TensorView& image) {
  const std::int64_t channels = image.shape[1];
  return {cudnn, image.dtype == DType::f64 ? DType::f64 : DType::f32, {1, channels, 1, 1}, {channels, 1, 1, 1}};
}

class Pooling {
 public:
  Pooling(const Cudnn& cudnn, const ops::Pool2dAttributes& a) : cudnn_(cudnn) {
    const auto as_int = [](std::int64_t value) { return static_cast<int>(value); };
    cudnn.require(cudnn.functions.create_pooling(&descriptor_), "cudnnCreatePoolingDescriptor");
    const cudnnPoolingMode_t mode =
        a.count_include_pad ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
    const cudnnStatus_t set = cudnn.functions.set_pooling(
        descriptor_, mode, CUDNN_PROPAGATE_NAN, as_int(a.kernel[0]), as_int(a.kernel[1]), as_int(a.padding[0]),
        as_int(a.padding[1]), as_int(a.stride[0]), as_int(a.stride[1]));
    if (set == CUDNN_STATUS_SUCCESS) return;
    cudnn.functions.destroy_pooling(descriptor_);
    cudnn.require(set, "cudnnSetPooling2dDescriptor");
  }
  ~Pooling() { cudnn_.functions.destroy_pooling(descriptor_); }
  Pooling(const Pooling&) = delete;
  Pooling& operator=(const Pooling&) = delete;

  cudnnPoolingDescriptor_t get() const { return descriptor_; }

 private:
  const Cudnn& cudnn_;
  cudnnPoolingDescriptor_t descriptor_ = nullptr;
};

// Whether y has the extents that cuDNN gives the pooling of x, and all windows are ones that it takes.
bool can_pool(const ops::Pool2dAttributes& a, const TensorView& x, const TensorView& y) {
  if (!fits_cudnn(x.shape) || !fits_cudnn(y.shape) || x.numel() == 0 || y.numel() == 0) return false;
  for (int i = 0; i < 2; ++i) {
    const std::int64_t span = x.shape[2 + i] + 2 * a.padding[i] - a.kernel[i];
    if (span < 0 || a.padding[i] >= a.kernel[i] || y.shape[2 + i] != span / a.stride[i] + 1) return false;
  }
  return true;
}

}  // namespace

bool normalizes_by_cudnn(const TensorView& x) {
  if (x.shape.rank() != 4 || x.dtype == DType::f64 || x.numel() == 0 || !fits_cudnn(x.shape)) return false;
  return x.shape[0] * x.shape[2] * x.shape[3] > 1 && has_cudnn();
}

bool cudnn_batch_norm_backward(const TensorView& dy, const TensorView& x, const ChannelAffine& affine, double epsilon,
                               const ChannelStatistics& statistics, const TensorView& dx,
                               const ChannelAffine& gradient) {
  const Cudnn* const cudnn = current_cudnn();
  if (cudnn == nullptr) return false;
  const CudnnTensor x_tensor = image_tensor(*cudnn, x), dy_tensor = image_tensor(*cudnn, dy),
                    dx_tensor = image_tensor(*cudnn, dx), channels = channel_tensor(*cudnn, x);
  const CudnnFactor one(1, DType::f32), zero(0, DType::f32);
  return enqueued(*cudnn,
                  cudnn->functions.normalize_gradient(
                      cudnn->handle, CUDNN_BATCHNORM_SPATIAL, one.get(), zero.get(), one.get(), zero.get(),
                      x_tensor.get(), x.data, dy_tensor.get(), dy.data, dx_tensor.get(), dx.data, channels.get(),
                      affine.gamma, gradient.gamma, gradient.beta, epsilon, statistics.mean, statistics.inverse_std),
                  "cudnnBatchNormalizationBackward");
}

bool cudnn_average_pool(const ops::Pool2dAttributes& attributes, const TensorView& x, const TensorView& y) {
  if (!can_pool(attributes, x, y)) return false;
  const Cudnn* const cudnn = current_cudnn();
  if (cudnn == nullptr) return false;
  const Pooling pooling(*cudnn, attributes);
  const CudnnTensor x_tensor = image_tensor(*cudnn, x), y_tensor = image_tensor(*cudnn, y);
  return enqueued(*cudnn,
                  cudnn->functions.pool(cudnn->handle, pooling.get(), CudnnFactor(1, x.dtype).get(), x_tensor.get(),
                                        x.data, CudnnFactor(0, x.dtype).get(), y_tensor.get(), y.data),
                  "cudnnPoolingForward");
}

bool cudnn_average_pool_backward(const ops::Pool2dAttributes& attributes, const TensorView& dy, const TensorView& dx) {
  if (!can_pool(attributes, dx, dy)) return false;
  const Cudnn* const cudnn = current_cudnn();
  if (cudnn == nullptr) return false;
  const Pooling pooling(*cudnn, attributes);
  const CudnnTensor x_tensor = image_tensor(*cudnn, dx), y_tensor = image_tensor(*cudnn, dy);
  // Averages depend on neither x nor y, which the function asks for all the same.
  return enqueued(*cudnn,
                  cudnn->functions.pool_gradient(cudnn->handle, pooling.get(), CudnnFactor(1, dx.dtype).get(),
                                                 y_tensor.get(), dy.data, y_tensor.get(), dy.data, x_tensor.get(),
                                                 dx.data, CudnnFactor(0, dx.dtype).get(), x_tensor.get(), dx.data),
                  "cudnnPoolingBackward");
}

}  // namespace ferry::cuda_backend
