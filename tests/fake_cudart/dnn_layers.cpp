// A stand-in for cuDNN's batch normalisation and average pooling, in plain loops in their stream's order.
#include <cmath>

#include "tests/fake_cudart/dnn.h"

using fake_cuda::get;
using fake_cuda::set;

struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode{};
  std::int64_t window[2] = {}, padding[2] = {}, stride[2] = {};
};

namespace {

std::int64_t at(const cudnnTensorStruct& t, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return n * t.stride[0] + c * t.stride[1] + h * t.stride[2] + w * t.stride[3];
}

template <class Body>
void for_channel(const cudnnTensorStruct& t, std::int64_t c, const Body& body) {
  for (std::int64_t n = 0; n < t.shape[0]; ++n)
    for (std::int64_t h = 0; h < t.shape[2]; ++h)
      for (std::int64_t w = 0; w < t.shape[3]; ++w) body(n, c, h, w);
}

bool same_shape(const cudnnTensorStruct& a, const cudnnTensorStruct& b) {
  for (int i = 0; i < 4; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
  }
  return a.type == b.type;
}

bool is_per_channel(const cudnnTensorStruct& channels, const cudnnTensorStruct& x) {
  return channels.type == CUDNN_DATA_FLOAT && channels.shape[0] == 1 && channels.shape[1] == x.shape[1] &&
         channels.shape[2] == 1 && channels.shape[3] == 1;
}

bool is_one(const void* factor) { return *static_cast<const float*>(factor) == 1; }
bool is_zero(const void* factor) { return *static_cast<const float*>(factor) == 0; }

// Calls body(place in x) for the window of an output, and says how many elements its average counts.
template <class Body>
double for_window(const cudnnPoolingStruct& p, const cudnnTensorStruct& x, std::int64_t n, std::int64_t c,
                  std::int64_t oh, std::int64_t ow, const Body& body) {
  std::int64_t inside = 0;
  for (std::int64_t kh = 0; kh < p.window[0]; ++kh)
    for (std::int64_t kw = 0; kw < p.window[1]; ++kw) {
      const std::int64_t h = oh * p.stride[0] - p.padding[0] + kh, w = ow * p.stride[1] - p.padding[1] + kw;
      if (h < 0 || w < 0 || h >= x.shape[2] || w >= x.shape[3]) continue;
      ++inside;
      body(at(x, n, c, h, w));
    }
  const bool counts_padding = p.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
  return static_cast<double>(counts_padding ? p.window[0] * p.window[1] : inside);
}

template <class Body>
void for_outputs(const cudnnTensorStruct& y, const Body& body) {
  for (std::int64_t n = 0; n < y.shape[0]; ++n)
    for (std::int64_t c = 0; c < y.shape[1]; ++c)
      for (std::int64_t h = 0; h < y.shape[2]; ++h)
        for (std::int64_t w = 0; w < y.shape[3]; ++w) body(n, c, h, w);
}

bool pools(const cudnnPoolingStruct& p, const cudnnTensorStruct& x, const cudnnTensorStruct& y) {
  for (int i = 0; i < 2; ++i) {
    if (y.shape[2 + i] != (x.shape[2 + i] + 2 * p.padding[i] - p.window[i]) / p.stride[i] + 1) return false;
  }
  return p.mode != CUDNN_POOLING_MAX && x.shape[0] == y.shape[0] && x.shape[1] == y.shape[1] && x.type == y.type;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                                              const void* beta, const void* alpha_of_channels,
                                              const void* beta_of_channels, const cudnnTensorDescriptor_t xd,
                                              const void* x, const cudnnTensorDescriptor_t dyd, const void* dy,
                                              const cudnnTensorDescriptor_t dxd, void* dx,
                                              const cudnnTensorDescriptor_t channels, const void* scale, void* dscale,
                                              void* dshift, double, const void* mean, const void* inverse_std) {
  const bool legal = mode == CUDNN_BATCHNORM_SPATIAL && is_one(alpha) && is_zero(beta) && is_one(alpha_of_channels) &&
                     is_zero(beta_of_channels) && same_shape(*xd, *dyd) && same_shape(*xd, *dxd) &&
                     is_per_channel(*channels, *xd) && scale != nullptr && dscale != nullptr && dshift != nullptr;
  if (!legal) return CUDNN_STATUS_BAD_PARAM;
  return fake_cuda::enqueue(handle, "cudnnBatchNormalizationBackward", [=, xt = *xd, dyt = *dyd, dxt = *dxd] {
    for (std::int64_t c = 0; c < xt.shape[1]; ++c) {
      const double average = static_cast<const float*>(mean)[c], inverse = static_cast<const float*>(inverse_std)[c];
      double sum = 0, product = 0, count = 0;
      for_channel(xt, c, [&](auto... place) {
        const double slope = get(dy, dyt.type, at(dyt, place...));
        sum += slope;
        product += slope * (get(x, xt.type, at(xt, place...)) - average) * inverse;
        ++count;
      });
      static_cast<float*>(dscale)[c] = static_cast<float>(product);
      static_cast<float*>(dshift)[c] = static_cast<float>(sum);
      for_channel(xt, c, [&](auto... place) {
        const double normal = (get(x, xt.type, at(xt, place...)) - average) * inverse;
        const double slope = get(dy, dyt.type, at(dyt, place...));
        set(dx, dxt.type, at(dxt, place...),
            static_cast<const float*>(scale)[c] * inverse * (slope - (sum + normal * product) / count));
      });
    }
  });
}

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* p) {
  *p = new cudnnPoolingStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t p, cudnnPoolingMode_t mode, cudnnNanPropagation_t,
                                          int h, int w, int ph, int pw, int sh, int sw) {
  *p = {mode, {h, w}, {ph, pw}, {sh, sw}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t p) {
  delete p;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void*,
                                  const cudnnTensorDescriptor_t xd, const void* x, const void*,
                                  const cudnnTensorDescriptor_t yd, void* y) {
  if (!pools(*pooling, *xd, *yd)) return CUDNN_STATUS_BAD_PARAM;
  return fake_cuda::enqueue(handle, "cudnnPoolingForward", [=, p = *pooling, xt = *xd, yt = *yd] {
    for_outputs(yt, [&](auto... place) {
      double sum = 0;
      const double count = for_window(p, xt, place..., [&](std::int64_t i) { sum += get(x, xt.type, i); });
      set(y, yt.type, at(yt, place...), sum / count);
    });
  });
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void*,
                                   const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t dyd,
                                   const void* dy, const cudnnTensorDescriptor_t, const void*, const void*,
                                   const cudnnTensorDescriptor_t dxd, void* dx) {
  if (!pools(*pooling, *dxd, *dyd)) return CUDNN_STATUS_BAD_PARAM;
  return fake_cuda::enqueue(handle, "cudnnPoolingBackward", [=, p = *pooling, dyt = *dyd, dxt = *dxd] {
    // Images have no gaps.
    std::vector<double> sums(static_cast<std::size_t>(dxt.shape[0] * dxt.shape[1] * dxt.shape[2] * dxt.shape[3]));
    for_outputs(dyt, [&](auto... place) {
      const double count = for_window(p, dxt, place..., [](std::int64_t) {});
      const double slope = get(dy, dyt.type, at(dyt, place...)) / count;
      for_window(p, dxt, place..., [&](std::int64_t i) { sums[static_cast<std::size_t>(i)] += slope; });
    });
    for (std::size_t i = 0; i < sums.size(); ++i) set(dx, dxt.type, static_cast<std::int64_t>(i), sums[i]);
  });
}

}  // extern "C"
