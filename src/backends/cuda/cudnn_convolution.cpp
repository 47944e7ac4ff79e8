#include "src/backends/cuda/cudnn.h"

#include <array>

#include "src/backends/cuda/cudnn_library.h"
#include "src/backends/cuda/libraries.h"

namespace ferry::cuda_backend {
namespace {

// Scratch memory that an algorithm may ask for; fixed, so that the choice does not depend on how much is free.
constexpr std::size_t kMostScratch = std::size_t{256} << 20;
constexpr int kMostAlgorithms = 8;

// f32 stays f32: the library's default would round operands to TensorFloat-32.
bool stays_exact(DType dtype) { return dtype == DType::f64 || (dtype == DType::f32 && !allows_tf32()); }
cudnnMathType_t math_type(DType dtype) { return stays_exact(dtype) ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH; }

// Whether y has the extents that the convolution of x has: a transposed convolution may have been asked for more.
bool has_extents(const ops::Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y) {
  for (int i = 0; i < 2; ++i) {
    const std::int64_t span = x[2 + i] + 2 * a.padding[i] - a.dilation[i] * (w[2 + i] - 1) - 1;
    if (span < 0 || y[2 + i] != span / a.stride[i] + 1) return false;
  }
  return true;
}

// What a problem is to cuDNN. Descriptors are made anew for each call; making them costs less than a launch.
class Problem {
 public:
  Problem(const Cudnn& cudnn, const ops::Conv2dAttributes& a, const TensorView& x, const TensorView& w,
          const TensorView& y)
      : cudnn_(cudnn),
        dtype_(w.dtype),
        x_(cudnn, x.dtype, x.shape, channels_last_strides(x.shape)),
        y_(cudnn, y.dtype, y.shape, channels_last_strides(y.shape)) {
    const CudnnFunctions& f = cudnn.functions;
    require(f.create_filter(&w_), "cudnnCreateFilterDescriptor");
    require(f.create_convolution(&convolution_), "cudnnCreateConvolutionDescriptor");
    require(f.set_filter(w_, cudnn_type(w.dtype), CUDNN_TENSOR_NHWC, as_int(w.shape[0]), as_int(w.shape[1]),
                         as_int(w.shape[2]), as_int(w.shape[3])),
            "cudnnSetFilter4dDescriptor");
    const cudnnDataType_t compute = w.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    require(f.set_convolution(convolution_, as_int(a.padding[0]), as_int(a.padding[1]), as_int(a.stride[0]),
                              as_int(a.stride[1]), as_int(a.dilation[0]), as_int(a.dilation[1]),
                              CUDNN_CROSS_CORRELATION, compute),
            "cudnnSetConvolution2dDescriptor");
    require(f.set_groups(convolution_, as_int(a.groups)), "cudnnSetConvolutionGroupCount");
    set_math(math_type(w.dtype));
  }
  ~Problem() {
    if (w_ != nullptr) cudnn_.functions.destroy_filter(w_);
    if (convolution_ != nullptr) cudnn_.functions.destroy_convolution(convolution_);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  cudnnTensorDescriptor_t x() const { return x_.get(); }
  cudnnTensorDescriptor_t y() const { return y_.get(); }
  cudnnFilterDescriptor_t w() const { return w_; }
  cudnnConvolutionDescriptor_t convolution() const { return convolution_; }

  // What an algorithm was offered with; never TensorFloat-32 where that is not allowed, whatever the offer says.
  void take_math(cudnnMathType_t offered) const { set_math(stays_exact(dtype_) ? CUDNN_FMA_MATH : offered); }

  void require(cudnnStatus_t status, const char* call) const { cudnn_.require(status, call); }

 private:
  static int as_int(std::int64_t value) { return static_cast<int>(value); }
  void set_math(cudnnMathType_t math) const {
    require(cudnn_.functions.set_math(convolution_, math), "cudnnSetConvolutionMathType");
  }

  const Cudnn& cudnn_;
  const DType dtype_;
  CudnnTensor x_, y_;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
};

// The library's guess of the fastest algorithm among those that are deterministic. False: it has none.
template <class Perf>
bool choose(const std::array<Perf, kMostAlgorithms>& offered, int count, Perf& chosen) {
  for (int i = 0; i < count; ++i) {
    const Perf& perf = offered[static_cast<std::size_t>(i)];
    if (perf.status != CUDNN_STATUS_SUCCESS || perf.determinism != CUDNN_DETERMINISTIC) continue;
    if (perf.memory > kMostScratch) continue;
    chosen = perf;
    return true;
  }
  return false;
}

// Calls run(functions, handle, problem) where cuDNN can be asked at all.
template <class Run>
bool with_cudnn(const ops::Conv2dAttributes& a, const TensorView& x, const TensorView& w, const TensorView& y,
                const Run& run) {
  if (!fits_cudnn(x.shape) || !fits_cudnn(w.shape) || !fits_cudnn(y.shape)) return false;
  if (!has_extents(a, x.shape, w.shape, y.shape)) return false;
  const Cudnn* const cudnn = current_cudnn();
  if (cudnn == nullptr) return false;
  const Problem problem(*cudnn, a, x, w, y);
  return run(cudnn->functions, cudnn->handle, problem);
}

void* scratch(std::size_t bytes) {
  return bytes == 0 ? nullptr : LaunchScope::current().scratch<std::byte>(static_cast<std::int64_t>(bytes));
}

}  // namespace

bool cudnn_convolution(const ops::Conv2dAttributes& attributes, const TensorView& x, const TensorView& w,
                       const TensorView& y, double beta) {
  return with_cudnn(attributes, x, w, y, [&](const CudnnFunctions& f, cudnnHandle_t handle, const Problem& p) {
    std::array<cudnnConvolutionFwdAlgoPerf_t, kMostAlgorithms> offered{};
    cudnnConvolutionFwdAlgoPerf_t chosen{};
    int count = 0;
    const cudnnStatus_t asked =
        f.forward_algorithms(handle, p.x(), p.w(), p.convolution(), p.y(), kMostAlgorithms, &count, offered.data());
    if (asked != CUDNN_STATUS_SUCCESS || !choose(offered, count, chosen)) return false;
    p.take_math(chosen.mathType);
    p.require(
        f.forward(handle, CudnnFactor(1, y.dtype).get(), p.x(), x.data, p.w(), w.data, p.convolution(), chosen.algo,
                  scratch(chosen.memory), chosen.memory, CudnnFactor(beta, y.dtype).get(), p.y(), y.data),
        "cudnnConvolutionForward");
    return true;
  });
}

bool cudnn_input_gradient(const ops::Conv2dAttributes& attributes, const TensorView& dy, const TensorView& w,
                          const TensorView& dx) {
  return with_cudnn(attributes, dx, w, dy, [&](const CudnnFunctions& f, cudnnHandle_t handle, const Problem& p) {
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMostAlgorithms> offered{};
    cudnnConvolutionBwdDataAlgoPerf_t chosen{};
    int count = 0;
    const cudnnStatus_t asked =
        f.data_algorithms(handle, p.w(), p.y(), p.convolution(), p.x(), kMostAlgorithms, &count, offered.data());
    if (asked != CUDNN_STATUS_SUCCESS || !choose(offered, count, chosen)) return false;
    p.take_math(chosen.mathType);
    p.require(f.data_gradient(handle, CudnnFactor(1, dx.dtype).get(), p.w(), w.data, p.y(), dy.data, p.convolution(),
                              chosen.algo, scratch(chosen.memory), chosen.memory, CudnnFactor(0, dx.dtype).get(), p.x(),
                              dx.data),
              "cudnnConvolutionBackwardData");
    return true;
  });
}

bool cudnn_weight_gradient(const ops::Conv2dAttributes& attributes, const TensorView& dy, const TensorView& x,
                           const TensorView& dw) {
  return with_cudnn(attributes, x, dw, dy, [&](const CudnnFunctions& f, cudnnHandle_t handle, const Problem& p) {
    std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kMostAlgorithms> offered{};
    cudnnConvolutionBwdFilterAlgoPerf_t chosen{};
    int count = 0;
    const cudnnStatus_t asked =
        f.filter_algorithms(handle, p.x(), p.y(), p.convolution(), p.w(), kMostAlgorithms, &count, offered.data());
    if (asked != CUDNN_STATUS_SUCCESS || !choose(offered, count, chosen)) return false;
    p.take_math(chosen.mathType);
    p.require(f.filter_gradient(handle, CudnnFactor(1, dw.dtype).get(), p.x(), x.data, p.y(), dy.data, p.convolution(),
                                chosen.algo, scratch(chosen.memory), chosen.memory, CudnnFactor(0, dw.dtype).get(),
                                p.w(), dw.data),
              "cudnnConvolutionBackwardFilter");
    return true;
  });
}

}  // namespace ferry::cuda_backend
