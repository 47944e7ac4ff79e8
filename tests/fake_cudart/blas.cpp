// A stand-in for the products of cuBLAS, in plain loops in their stream's order. Sums are taken in double.
#include <cublas_v2.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <vector>

#include "tests/fake_cudart/machine.h"

using fake_cuda::Machine;

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

double get(const void* data, cudaDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_16F:
      return static_cast<float>(static_cast<const __half*>(data)[i]);
    default:
      return static_cast<float>(static_cast<const __nv_bfloat16*>(data)[i]);
  }
}

void set(void* data, cudaDataType_t type, std::int64_t i, double value) {
  switch (type) {
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = value;
      return;
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __half(static_cast<float>(value));
      return;
    default:
      static_cast<__nv_bfloat16*>(data)[i] = __nv_bfloat16(static_cast<float>(value));
  }
}

struct Product {
  cublasOperation_t a_operation, b_operation;
  std::int64_t m, n, k, a_leading, b_leading, c_leading;
  cudaDataType_t a_type, b_type, c_type;
  double alpha, beta;

  void run(const void* a, const void* b, void* c) const {
    const std::vector<double> rows = lines(a, a_type, m, a_operation == CUBLAS_OP_N, a_leading);
    const std::vector<double> columns = lines(b, b_type, n, b_operation != CUBLAS_OP_N, b_leading);
    for (std::int64_t column = 0; column < n; ++column) {
      for (std::int64_t row = 0; row < m; ++row) {
        const double* const x = rows.data() + row * k;
        const double* const y = columns.data() + column * k;
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) sum += x[i] * y[i];
        const std::int64_t to = column * c_leading + row;
        set(c, c_type, to, alpha * sum + (beta == 0 ? 0.0 : beta * get(c, c_type, to)));
      }
    }
  }

  // The rows of a, or the columns of b, one after the other; `across`: neighbours of a line lie `leading` apart.
  std::vector<double> lines(const void* data, cudaDataType_t type, std::int64_t count, bool across,
                            std::int64_t leading) const {
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(count * k));
    for (std::int64_t line = 0; line < count; ++line)
      for (std::int64_t i = 0; i < k; ++i)
        values.push_back(get(data, type, across ? i * leading + line : line * leading + i));
    return values;
  }
};

double factor(const void* value, cublasComputeType_t type) {
  return type == CUBLAS_COMPUTE_64F ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
}

std::int64_t size_of(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

// What cuBLAS refuses.
bool is_legal(const Product& p) {
  const std::int64_t a_rows = p.a_operation == CUBLAS_OP_N ? p.m : p.k;
  const std::int64_t b_rows = p.b_operation == CUBLAS_OP_N ? p.k : p.n;
  return p.m > 0 && p.n > 0 && p.k > 0 && p.a_leading >= a_rows && p.b_leading >= b_rows && p.c_leading >= p.m;
}

template <class Work>
cublasStatus_t enqueue(cublasHandle_t handle, const char* name, const Product& product, const Work& work) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  if (machine.enter(name) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!is_legal(product)) return CUBLAS_STATUS_INVALID_VALUE;
  machine.launches.push_back({name, dim3(1), dim3(1)});
  CUstream_st* const stream = machine.stream_of(handle->stream);
  machine.push(stream, work, machine.traced({.device = stream->device}));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_EXECUTION_FAILED";
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, std::int64_t m,
                               std::int64_t n, std::int64_t k, const void* alpha, const void* a, cudaDataType at,
                               std::int64_t lda, const void* b, cudaDataType bt, std::int64_t ldb, const void* beta,
                               void* c, cudaDataType ct, std::int64_t ldc, cublasComputeType_t type, cublasGemmAlgo_t) {
  const Product product{ta, tb, m, n, k, lda, ldb, ldc, at, bt, ct, factor(alpha, type), factor(beta, type)};
  return enqueue(handle, "cublasGemmEx", product, [=] { product.run(a, b, c); });
}

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                             std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                                             const void* a, cudaDataType at, std::int64_t lda, long long a_step,
                                             const void* b, cudaDataType bt, std::int64_t ldb, long long b_step,
                                             const void* beta, void* c, cudaDataType ct, std::int64_t ldc,
                                             long long c_step, std::int64_t count, cublasComputeType_t type,
                                             cublasGemmAlgo_t) {
  const Product product{ta, tb, m, n, k, lda, ldb, ldc, at, bt, ct, factor(alpha, type), factor(beta, type)};
  return enqueue(handle, "cublasGemmStridedBatchedEx", product, [=] {
    for (std::int64_t i = 0; i < count; ++i) {
      product.run(static_cast<const char*>(a) + i * a_step * size_of(at),
                  static_cast<const char*>(b) + i * b_step * size_of(bt),
                  static_cast<char*>(c) + i * c_step * size_of(ct));
    }
  });
}

cublasStatus_t cublasGemmBatchedEx_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, std::int64_t m,
                                      std::int64_t n, std::int64_t k, const void* alpha, const void* const a[],
                                      cudaDataType at, std::int64_t lda, const void* const b[], cudaDataType bt,
                                      std::int64_t ldb, const void* beta, void* const c[], cudaDataType ct,
                                      std::int64_t ldc, std::int64_t count, cublasComputeType_t type,
                                      cublasGemmAlgo_t) {
  const Product product{ta, tb, m, n, k, lda, ldb, ldc, at, bt, ct, factor(alpha, type), factor(beta, type)};
  return enqueue(handle, "cublasGemmBatchedEx", product, [=] {
    for (std::int64_t i = 0; i < count; ++i) product.run(a[i], b[i], c[i]);
  });
}

}  // extern "C"
