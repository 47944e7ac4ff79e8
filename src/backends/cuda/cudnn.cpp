#include "src/backends/cuda/cudnn.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <memory>

#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/launch_scope.h"
#include "src/backends/cuda/libraries.h"
#include "src/backends/cuda/shared_library.h"

namespace ferry::cuda_backend {
namespace {

// Scratch memory that an algorithm may ask for; fixed, so that the choice does not depend on how much is free.
constexpr std::size_t kMostScratch = std::size_t{256} << 20;
constexpr int kMostAlgorithms = 8;

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      return CUDNN_DATA_BFLOAT16;
  }
}

// f32 stays f32: the library's default would round operands to TensorFloat-32.
cudnnMathType_t math_type(DType dtype) {
  if (dtype == DType::f64 || (dtype == DType::f32 && !allows_tf32())) return CUDNN_FMA_MATH;
  return CUDNN_TENSOR_OP_MATH;
}

bool fits(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent <= 0x7fffffff; }) &&
         shape.product() <= 0x7fffffff;
}

// Whether y has the extents that the convolution of x has: a transposed convolution may have been asked for more.
bool has_extents(const ops::Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y) {
  for (int i = 0; i < 2; ++i) {
    const std::int64_t span = x[2 + i] + 2 * a.padding[i] - a.dilation[i] * (w[2 + i] - 1) - 1;
    if (span < 0 || y[2 + i] != span / a.stride[i] + 1) return false;
  }
  return true;
}

// The functions of cuDNN that kernels call.
struct CudnnFunctions {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnSetTensor4dDescriptorEx) set_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnCreateFilterDescriptor) create_filter;
  decltype(&cudnnSetFilter4dDescriptor) set_filter;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter;
  decltype(&cudnnCreateConvolutionDescriptor) create_convolution;
  decltype(&cudnnSetConvolution2dDescriptor) set_convolution;
  decltype(&cudnnSetConvolutionGroupCount) set_groups;
  decltype(&cudnnSetConvolutionMathType) set_math;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution;
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) forward_algorithms;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) data_algorithms;
  decltype(&cudnnConvolutionBackwardData) data_gradient;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) filter_algorithms;
  decltype(&cudnnConvolutionBackwardFilter) filter_gradient;
};

// The opened library; without functions where it is missing or not wanted.
struct Cudnn {
  CudnnFunctions functions{};
  cudnnHandle_t handle = nullptr;

  Cudnn() {
    if (environment_is("FERRY_CUDNN", "0") || !SharedLibrary::exists(cudnn_library())) return;
    const SharedLibrary library(cudnn_library());
    library.find(functions.create, "cudnnCreate");
    library.find(functions.destroy, "cudnnDestroy");
    library.find(functions.set_stream, "cudnnSetStream");
    library.find(functions.error_string, "cudnnGetErrorString");
    library.find(functions.create_tensor, "cudnnCreateTensorDescriptor");
    library.find(functions.set_tensor, "cudnnSetTensor4dDescriptorEx");
    library.find(functions.destroy_tensor, "cudnnDestroyTensorDescriptor");
    library.find(functions.create_filter, "cudnnCreateFilterDescriptor");
    library.find(functions.set_filter, "cudnnSetFilter4dDescriptor");
    library.find(functions.destroy_filter, "cudnnDestroyFilterDescriptor");
    library.find(functions.create_convolution, "cudnnCreateConvolutionDescriptor");
    library.find(functions.set_convolution, "cudnnSetConvolution2dDescriptor");
    library.find(functions.set_groups, "cudnnSetConvolutionGroupCount");
    library.find(functions.set_math, "cudnnSetConvolutionMathType");
    library.find(functions.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
    library.find(functions.forward_algorithms, "cudnnGetConvolutionForwardAlgorithm_v7");
    library.find(functions.forward, "cudnnConvolutionForward");
    library.find(functions.data_algorithms, "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    library.find(functions.data_gradient, "cudnnConvolutionBackwardData");
    library.find(functions.filter_algorithms, "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    library.find(functions.filter_gradient, "cudnnConvolutionBackwardFilter");
    require(functions.create(&handle), "cudnnCreate");
  }
  ~Cudnn() {
    if (handle != nullptr) functions.destroy(handle);
  }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  void require(cudnnStatus_t status, const char* call) const {
    if (status != CUDNN_STATUS_SUCCESS) {
      fail_library("cuDNN", call, functions.error_string(status), static_cast<int>(status));
    }
  }
};

Cudnn& opened() {
  std::shared_ptr<void>& slot = LaunchScope::current().libraries().cudnn();
  if (slot == nullptr) slot = std::make_shared<Cudnn>();
  return *static_cast<Cudnn*>(slot.get());
}

// What a problem is to cuDNN. Descriptors are made anew for each call; making them costs less than a launch.
class Problem {
 public:
  Problem(const CudnnFunctions& functions, const ops::Conv2dAttributes& a, const TensorView& x, const TensorView& w,
          const TensorView& y)
      : functions_(functions) {
    require(functions_.create_tensor(&x_), "cudnnCreateTensorDescriptor");
    require(functions_.create_tensor(&y_), "cudnnCreateTensorDescriptor");
    require(functions_.create_filter(&w_), "cudnnCreateFilterDescriptor");
    require(functions_.create_convolution(&convolution_), "cudnnCreateConvolutionDescriptor");
    set_image(x_, x);
    set_image(y_, y);
    require(functions_.set_filter(w_, data_type(w.dtype), CUDNN_TENSOR_NHWC, as_int(w.shape[0]), as_int(w.shape[1]),
                                  as_int(w.shape[2]), as_int(w.shape[3])),
            "cudnnSetFilter4dDescriptor");
    const cudnnDataType_t compute = w.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    require(functions_.set_convolution(convolution_, as_int(a.padding[0]), as_int(a.padding[1]), as_int(a.stride[0]),
                                       as_int(a.stride[1]), as_int(a.dilation[0]), as_int(a.dilation[1]),
                                       CUDNN_CROSS_CORRELATION, compute),
            "cudnnSetConvolution2dDescriptor");
    require(functions_.set_groups(convolution_, as_int(a.groups)), "cudnnSetConvolutionGroupCount");
    require(functions_.set_math(convolution_, math_type(w.dtype)), "cudnnSetConvolutionMathType");
  }
  ~Problem() {
    functions_.destroy_tensor(x_);
    functions_.destroy_tensor(y_);
    functions_.destroy_filter(w_);
    functions_.destroy_convolution(convolution_);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  cudnnTensorDescriptor_t x() const { return x_; }
  cudnnTensorDescriptor_t y() const { return y_; }
  cudnnFilterDescriptor_t w() const { return w_; }
  cudnnConvolutionDescriptor_t convolution() const { return convolution_; }

  void require(cudnnStatus_t status, const char* call) const {
    if (status != CUDNN_STATUS_SUCCESS) {
      fail_library("cuDNN", call, functions_.error_string(status), static_cast<int>(status));
    }
  }

 private:
  static int as_int(std::int64_t value) { return static_cast<int>(value); }
  void set_image(cudnnTensorDescriptor_t descriptor, const TensorView& image) const {
    const Shape& s = image.shape;
    const Strides step = channels_last_strides(s);
    require(functions_.set_tensor(descriptor, data_type(image.dtype), as_int(s[0]), as_int(s[1]), as_int(s[2]),
                                  as_int(s[3]), as_int(step[0]), as_int(step[1]), as_int(step[2]), as_int(step[3])),
            "cudnnSetTensor4dDescriptorEx");
  }

  const CudnnFunctions& functions_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
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

// alpha and beta, in the type that is computed in.
struct Factor {
  double wide;
  float narrow;
  bool is_wide;

  Factor(double value, DType dtype) : wide(value), narrow(static_cast<float>(value)), is_wide(dtype == DType::f64) {}
  const void* get() const { return is_wide ? static_cast<const void*>(&wide) : &narrow; }
};

// Calls run(functions, handle, problem) where cuDNN can be asked at all.
template <class Run>
bool with_cudnn(const ops::Conv2dAttributes& a, const TensorView& x, const TensorView& w, const TensorView& y,
                const Run& run) {
  Cudnn& cudnn = opened();
  if (cudnn.handle == nullptr || !fits(x.shape) || !fits(w.shape) || !fits(y.shape)) return false;
  if (!has_extents(a, x.shape, w.shape, y.shape)) return false;
  const Problem problem(cudnn.functions, a, x, w, y);
  cudnn.require(cudnn.functions.set_stream(cudnn.handle, LaunchScope::current().stream()), "cudnnSetStream");
  return run(cudnn.functions, cudnn.handle, problem);
}

void* scratch(std::size_t bytes) {
  return bytes == 0 ? nullptr : LaunchScope::current().scratch<std::byte>(static_cast<std::int64_t>(bytes));
}

}  // namespace

bool has_cudnn() { return opened().handle != nullptr; }

bool cudnn_convolution(const ops::Conv2dAttributes& attributes, const TensorView& x, const TensorView& w,
                       const TensorView& y, double beta) {
  return with_cudnn(attributes, x, w, y, [&](const CudnnFunctions& f, cudnnHandle_t handle, const Problem& p) {
    std::array<cudnnConvolutionFwdAlgoPerf_t, kMostAlgorithms> offered{};
    cudnnConvolutionFwdAlgoPerf_t chosen{};
    int count = 0;
    const cudnnStatus_t asked =
        f.forward_algorithms(handle, p.x(), p.w(), p.convolution(), p.y(), kMostAlgorithms, &count, offered.data());
    if (asked != CUDNN_STATUS_SUCCESS || !choose(offered, count, chosen)) return false;
    p.require(f.set_math(p.convolution(), chosen.mathType), "cudnnSetConvolutionMathType");
    p.require(f.forward(handle, Factor(1, y.dtype).get(), p.x(), x.data, p.w(), w.data, p.convolution(), chosen.algo,
                        scratch(chosen.memory), chosen.memory, Factor(beta, y.dtype).get(), p.y(), y.data),
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
    p.require(f.set_math(p.convolution(), chosen.mathType), "cudnnSetConvolutionMathType");
    p.require(
        f.data_gradient(handle, Factor(1, dx.dtype).get(), p.w(), w.data, p.y(), dy.data, p.convolution(), chosen.algo,
                        scratch(chosen.memory), chosen.memory, Factor(0, dx.dtype).get(), p.x(), dx.data),
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
    p.require(f.set_math(p.convolution(), chosen.mathType), "cudnnSetConvolutionMathType");
    p.require(f.filter_gradient(handle, Factor(1, dw.dtype).get(), p.x(), x.data, p.y(), dy.data, p.convolution(),
                                chosen.algo, scratch(chosen.memory), chosen.memory, Factor(0, dw.dtype).get(), p.w(),
                                dw.data),
              "cudnnConvolutionBackwardFilter");
    return true;
  });
}

}  // namespace ferry::cuda_backend
