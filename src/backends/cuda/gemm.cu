#include "src/backends/cuda/gemm.h"

#include <cublas_v2.h>

#include <algorithm>
#include <utility>

#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/layout.h"
#include "src/backends/cuda/libraries.h"
#include "src/backends/cuda/views.h"

namespace ferry::cuda_backend {
namespace {

// One operand as cuBLAS sees it: a column-major matrix, perhaps transposed.
struct Operand {
  TensorView view;
  cublasOperation_t operation;
  std::int64_t leading;
};

// Row-major is column-major of the transposed. False when neither axis' elements are neighbours.
bool describe(const TensorView& view, Operand& operand) {
  const int rank = view.shape.rank();
  const std::int64_t rows = view.shape[rank - 2], columns = view.shape[rank - 1];
  const std::int64_t row = view.strides[rank - 2], column = view.strides[rank - 1];
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1)) {
    operand = {view, CUBLAS_OP_N, rows == 1 ? std::max<std::int64_t>(1, columns) : row};
    return true;
  }
  if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) {
    operand = {view, CUBLAS_OP_T, columns == 1 ? std::max<std::int64_t>(1, rows) : column};
    return true;
  }
  return false;
}

Operand operand_of(const KernelContext& context, const TensorView& view) {
  Operand operand{};
  if (describe(view, operand)) return operand;
  const TensorView dense = scratch_view(view.dtype, view.shape);
  copy_view(context, dense, view);
  describe(dense, operand);
  return operand;
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_16BF;
  }
}

cublasComputeType_t compute_type(DType dtype) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return dtype == DType::f32 && allows_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// alpha and beta, in the type that cuBLAS computes in.
class Factor {
 public:
  Factor(double value, DType dtype) : wide_(value), narrow_(static_cast<float>(value)), is_wide_(dtype == DType::f64) {}
  const void* get() const { return is_wide_ ? static_cast<const void*>(&wide_) : &narrow_; }

 private:
  double wide_;
  float narrow_;
  bool is_wide_;
};

// The matrices of three operands along their batch axes.
struct BatchPointers {
  Layout<3> layout;
  std::int64_t size, result_size;
  const std::byte* a;
  const std::byte* b;
  std::byte* c;
  const void** a_at;
  const void** b_at;
  void** c_at;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[3];
    layout.find(i, at);
    c_at[i] = c + at[0] * result_size;
    a_at[i] = a + at[1] * size;
    b_at[i] = b + at[2] * size;
  }
};

TensorView batch_of(TensorView view) {
  const int rank = view.shape.rank() - 2;
  view.shape = Dims(std::span(view.shape.begin(), static_cast<std::size_t>(rank)));
  view.strides = Dims(std::span(view.strides.begin(), static_cast<std::size_t>(rank)));
  return view;
}

struct Product {
  Operand a, b;
  TensorView c;
  std::int64_t m, n, k, leading_c;
  Factor alpha, beta;

  void run(const KernelContext& context) const;

 private:
  void run_one(const CublasFunctions& cublas, cublasHandle_t handle) const;
  void run_strided(const CublasFunctions& cublas, cublasHandle_t handle, const Layout<3>& batches) const;
  void run_pointers(const CublasFunctions& cublas, cublasHandle_t handle, const Layout<3>& batches) const;
  void require(const CublasFunctions& cublas, cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) {
      fail_library("cuBLAS", call, cublas.status_string(status), static_cast<int>(status));
    }
  }
  cudaDataType_t type() const { return data_type(a.view.dtype); }
  cudaDataType_t result_type() const { return data_type(c.dtype); }
};

// cuBLAS computes cᵀ = bᵀ aᵀ: the operands change places.
void Product::run_one(const CublasFunctions& cublas, cublasHandle_t handle) const {
  require(cublas,
          cublas.gemm(handle, b.operation, a.operation, n, m, k, alpha.get(), b.view.data, type(), b.leading,
                      a.view.data, type(), a.leading, beta.get(), c.data, result_type(), leading_c,
                      compute_type(c.dtype), CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
}

void Product::run_strided(const CublasFunctions& cublas, cublasHandle_t handle, const Layout<3>& batches) const {
  require(cublas,
          cublas.gemm_strided(handle, b.operation, a.operation, n, m, k, alpha.get(), b.view.data, type(), b.leading,
                              batches.stride[2][0], a.view.data, type(), a.leading, batches.stride[1][0], beta.get(),
                              c.data, result_type(), leading_c, batches.stride[0][0], batches.count,
                              compute_type(c.dtype), CUBLAS_GEMM_DEFAULT),
          "cublasGemmStridedBatchedEx");
}

void Product::run_pointers(const CublasFunctions& cublas, cublasHandle_t handle, const Layout<3>& batches) const {
  LaunchScope& scope = LaunchScope::current();
  const BatchPointers pointers{batches,
                               size_of(a.view.dtype),
                               size_of(c.dtype),
                               a.view.as<const std::byte>(),
                               b.view.as<const std::byte>(),
                               c.as<std::byte>(),
                               scope.scratch<const void*>(batches.count),
                               scope.scratch<const void*>(batches.count),
                               scope.scratch<void*>(batches.count)};
  for_each(batches.count, pointers);
  require(cublas,
          cublas.gemm_batched(handle, b.operation, a.operation, n, m, k, alpha.get(), pointers.b_at, type(), b.leading,
                              pointers.a_at, type(), a.leading, beta.get(), pointers.c_at, result_type(), leading_c,
                              batches.count, compute_type(c.dtype), CUBLAS_GEMM_DEFAULT),
          "cublasGemmBatchedEx");
}

void Product::run(const KernelContext&) const {
  LaunchScope& scope = LaunchScope::current();
  const CublasFunctions& cublas = scope.libraries().cublas();
  const cublasHandle_t handle = scope.libraries().cublas_handle(scope.stream());
  const TensorView c_batch = batch_of(c), a_batch = batch_of(a.view), b_batch = batch_of(b.view);
  const Layout<3> batches = make_layout<3>({&c_batch, &a_batch, &b_batch});
  if (batches.count == 1) return run_one(cublas, handle);
  if (batches.rank == 1) return run_strided(cublas, handle, batches);
  run_pointers(cublas, handle, batches);
}

}  // namespace

void gemm(const KernelContext& context, const TensorView& a, const TensorView& b, const TensorView& c, double alpha,
          double beta) {
  if (c.numel() == 0) return;
  const int rank = c.shape.rank();
  const std::int64_t m = c.shape[rank - 2], n = c.shape[rank - 1], k = a.shape[rank - 1];
  if (k == 0) {
    if (beta == 0) fill_view(context, c, 0);
    return;
  }
  const std::int64_t leading_c = m == 1 ? n : c.strides[rank - 2];
  const Product product{operand_of(context, a), operand_of(context, b), c, m, n, k, leading_c,
                        Factor(alpha, c.dtype), Factor(beta, c.dtype)};
  product.run(context);
}

TensorView transposed(TensorView view) {
  const int rank = view.shape.rank();
  std::swap(view.shape[rank - 2], view.shape[rank - 1]);
  std::swap(view.strides[rank - 2], view.strides[rank - 1]);
  return view;
}

TensorView matrix_view(const TensorView& base, void* data, const Shape& shape, const Strides& strides) {
  return {.data = data, .dtype = base.dtype, .given = true, .shape = shape, .strides = strides};
}

}  // namespace ferry::cuda_backend
