// A stand-in for the convolutions of cuDNN, in plain loops in their stream's order. Of two algorithms the faster one is
// not deterministic, and is refused.
#include "tests/fake_cudart/dnn.h"

using fake_cuda::factor;
using fake_cuda::get;
using fake_cuda::set;

struct cudnnConvolutionStruct {
  std::int64_t padding[2] = {}, stride[2] = {}, dilation[2] = {}, groups = 1;
  cudnnMathType_t math{};
};

namespace {

constexpr std::size_t kScratch = 4096;
constexpr int kDeterministic = 1;  // the number of the algorithm that is

// One convolution from x to y by w, and calls of body(x position, w position, y position) for every product in it.
struct Problem {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct c;

  bool is_legal() const {
    for (int i = 0; i < 2; ++i) {
      const std::int64_t span = x.shape[2 + i] + 2 * c.padding[i] - c.dilation[i] * (w.shape[2 + i] - 1) - 1;
      if (span < 0 || y.shape[2 + i] != span / c.stride[i] + 1) return false;
    }
    return x.type == w.type && x.type == y.type && x.shape[0] == y.shape[0] && y.shape[1] == w.shape[0] &&
           x.shape[1] == w.shape[1] * c.groups;
  }

  template <class Body>
  void for_products(const Body& body) const {
    const std::int64_t outputs = y.shape[1] / c.groups;
    for (std::int64_t n = 0; n < y.shape[0]; ++n)
      for (std::int64_t o = 0; o < y.shape[1]; ++o)
        for (std::int64_t oh = 0; oh < y.shape[2]; ++oh)
          for (std::int64_t ow = 0; ow < y.shape[3]; ++ow)
            for (std::int64_t i = 0; i < w.shape[1]; ++i)
              for (std::int64_t kh = 0; kh < w.shape[2]; ++kh)
                for (std::int64_t kw = 0; kw < w.shape[3]; ++kw) {
                  const std::int64_t h = oh * c.stride[0] - c.padding[0] + kh * c.dilation[0];
                  const std::int64_t v = ow * c.stride[1] - c.padding[1] + kw * c.dilation[1];
                  if (h < 0 || v < 0 || h >= x.shape[2] || v >= x.shape[3]) continue;
                  const std::int64_t channel = o / outputs * w.shape[1] + i;
                  body(at(x, n, channel, h, v), ((o * w.shape[2] + kh) * w.shape[3] + kw) * w.shape[1] + i,
                       at(y, n, o, oh, ow));
                }
  }
  static std::int64_t at(const cudnnTensorStruct& t, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return n * t.stride[0] + c * t.stride[1] + h * t.stride[2] + w * t.stride[3];
  }
  static std::int64_t count(const std::int64_t (&shape)[4]) { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

// Writes alpha * sums + beta * what is there. Images have no gaps.
void write(const std::vector<double>& sums, void* to, cudnnDataType_t type, double beta) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    set(to, type, at, sums[i] + (beta == 0 ? 0.0 : beta * get(to, type, at)));
  }
}

template <class Perf, class Algorithm>
cudnnStatus_t offer(int wanted, int* count, Perf* results) {
  *count = wanted < 2 ? wanted : 2;
  for (int i = 0; i < *count; ++i) {
    results[i].algo = static_cast<Algorithm>(i);
    results[i].status = CUDNN_STATUS_SUCCESS;
    results[i].memory = kScratch;
    results[i].determinism = i == kDeterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    results[i].mathType = CUDNN_FMA_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

template <class Work>
cudnnStatus_t enqueue(cudnnHandle_t handle, const char* name, const Problem& problem, int algorithm,
                      const void* scratch, std::size_t size, const Work& work) {
  if (!problem.is_legal() || algorithm != kDeterministic || scratch == nullptr || size < kScratch) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  return fake_cuda::enqueue(handle, name, work);
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_EXECUTION_FAILED";
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* t) {
  *t = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t t, cudnnDataType_t type, int n, int c, int h, int w,
                                           int ns, int cs, int hs, int ws) {
  *t = {type, {n, c, h, w}, {ns, cs, hs, ws}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) {
  delete t;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* f) {
  *f = new cudnnFilterStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w) {
  *f = {type, {k, c, h, w}};
  return format == CUDNN_TENSOR_NHWC ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f) {
  delete f;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* c) {
  *c = new cudnnConvolutionStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int ph, int pw, int sh, int sw, int dh,
                                              int dw, cudnnConvolutionMode_t mode, cudnnDataType_t) {
  *c = {{ph, pw}, {sh, sw}, {dh, dw}, 1, CUDNN_DEFAULT_MATH};
  return mode == CUDNN_CROSS_CORRELATION ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) {
  delete c;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                     const cudnnFilterDescriptor_t, const cudnnConvolutionDescriptor_t,
                                                     const cudnnTensorDescriptor_t, const int wanted, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return offer<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(wanted, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t,
                                                          const cudnnTensorDescriptor_t,
                                                          const cudnnConvolutionDescriptor_t,
                                                          const cudnnTensorDescriptor_t, const int wanted, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return offer<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(wanted, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                            const cudnnTensorDescriptor_t,
                                                            const cudnnConvolutionDescriptor_t,
                                                            const cudnnFilterDescriptor_t, const int wanted, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return offer<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(wanted, count, results);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t xd,
                                      const void* x, const cudnnFilterDescriptor_t wd, const void* w,
                                      const cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* scratch, std::size_t size, const void* beta,
                                      const cudnnTensorDescriptor_t yd, void* y) {
  const Problem p{*xd, *yd, *wd, *c};
  const double kept = factor(beta, xd->type);
  return enqueue(handle, "cudnnConvolutionForward", p, algorithm, scratch, size, [=] {
    std::vector<double> sums(static_cast<std::size_t>(Problem::count(p.y.shape)));
    p.for_products([&](std::int64_t i, std::int64_t j, std::int64_t k) {
      sums[static_cast<std::size_t>(k)] += get(x, p.x.type, i) * get(w, p.w.type, j);
    });
    write(sums, y, p.y.type, kept);
  });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void*, const cudnnFilterDescriptor_t wd,
                                           const void* w, const cudnnTensorDescriptor_t yd, const void* dy,
                                           const cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* scratch, std::size_t size,
                                           const void* beta, const cudnnTensorDescriptor_t xd, void* dx) {
  const Problem p{*xd, *yd, *wd, *c};
  const double kept = factor(beta, xd->type);
  return enqueue(handle, "cudnnConvolutionBackwardData", p, algorithm, scratch, size, [=] {
    std::vector<double> sums(static_cast<std::size_t>(Problem::count(p.x.shape)));
    p.for_products([&](std::int64_t i, std::int64_t j, std::int64_t k) {
      sums[static_cast<std::size_t>(i)] += get(dy, p.y.type, k) * get(w, p.w.type, j);
    });
    write(sums, dx, p.x.type, kept);
  });
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t xd,
                                             const void* x, const cudnnTensorDescriptor_t yd, const void* dy,
                                             const cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* scratch, std::size_t size,
                                             const void* beta, const cudnnFilterDescriptor_t wd, void* dw) {
  const Problem p{*xd, *yd, *wd, *c};
  const double kept = factor(beta, xd->type);
  return enqueue(handle, "cudnnConvolutionBackwardFilter", p, algorithm, scratch, size, [=] {
    std::vector<double> sums(static_cast<std::size_t>(Problem::count(p.w.shape)));
    p.for_products([&](std::int64_t i, std::int64_t j, std::int64_t k) {
      sums[static_cast<std::size_t>(j)] += get(dy, p.y.type, k) * get(x, p.x.type, i);
    });
    write(sums, dw, p.w.type, kept);
  });
}

}  // extern "C"
