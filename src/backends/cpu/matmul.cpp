#include <algorithm>
#include <cstring>
#include <vector>

#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/matmul_problem.h"
#include "src/backends/cpu/tile_matmul.h"

namespace ferry::cpu_backend {
namespace {

using dnn::Direction;
using dnnl::memory;

constexpr std::uint32_t kMatmulKey = 0x6d61746d;

memory::desc describe(const MatmulProblem& problem, const Steps& steps, std::int64_t rows, std::int64_t columns,
                      memory::data_type type) {
  if (problem.batch == 1) return {{rows, columns}, type, memory::dims{steps.row, steps.column}};
  const std::int64_t batch = steps.batch == 0 ? 1 : problem.batch;
  const std::int64_t step = steps.batch == 0 ? rows * columns : steps.batch;
  return {{batch, rows, columns}, type, memory::dims{step, steps.row, steps.column}};
}

dnn::Plan make_matmul(const MatmulProblem& problem, DType dtype, const TensorView& bias) {
  const memory::data_type type = dnn::data_type(dtype);
  const memory::desc a = describe(problem, problem.a, problem.m, problem.k, type);
  const memory::desc b = describe(problem, problem.b, problem.k, problem.n, type);
  const memory::desc y = describe(problem, problem.y, problem.m, problem.n, type);
  std::vector<dnn::Plan::Argument> arguments = {{DNNL_ARG_SRC, Direction::in, a, a},
                                                {DNNL_ARG_WEIGHTS, Direction::in, b, b},
                                                {DNNL_ARG_DST, Direction::out, y, y}};
  if (!bias.given) {
    const dnnl::matmul::primitive_desc description({a, b, y}, dnn::user_scratchpad(), dnn::engine());
    return {dnnl::matmul(description), description.scratchpad_desc(), arguments};
  }
  const memory::desc row({1, problem.n}, dnn::data_type(bias.dtype), memory::dims{problem.n, 1});
  arguments.push_back({DNNL_ARG_BIAS, Direction::in, row, row});
  const dnnl::matmul::primitive_desc description({a, b, row, y}, dnn::user_scratchpad(), dnn::engine());
  return {dnnl::matmul(description), description.scratchpad_desc(), arguments};
}

dnn::Plan& matmul_plan(std::string_view op, const MatmulProblem& problem, DType dtype, const TensorView& bias) {
  dnn::Key key(kMatmulKey);
  key.add(static_cast<std::int64_t>(dtype)).add(bias.given ? static_cast<std::int64_t>(bias.dtype) : -1);
  for (const std::int64_t extent : {problem.batch, problem.m, problem.n, problem.k}) key.add(extent);
  for (const Steps& steps : {problem.a, problem.b}) key.add(steps.batch).add(steps.row).add(steps.column);
  return dnn::plans().get(key, [&] { return dnn::make_plan(op, [&] { return make_matmul(problem, dtype, bias); }); });
}

// False where oneDNN has no primitive for the dtype on this CPU.
bool multiply_with_dnn(std::string_view op, const BatchedMatmul& matmul, DType dtype, const TensorView& bias) {
  const dnn::TeamScope team(matmul.problem.flops());
  dnn::Plan& plan = matmul_plan(op, matmul.problem, dtype, bias);
  if (!plan.supported()) return false;
  const std::int64_t size = size_of(dtype);
  for (std::int64_t i = 0; i < matmul.outer.size(); ++i) {
    const BatchAxes::Axis at = matmul.outer.offsets(i);
    void* const data[] = {const_cast<std::byte*>(matmul.a + at.a * size),
                          const_cast<std::byte*>(matmul.b + at.b * size), matmul.y + at.y * size, bias.data};
    plan.run(op, std::span(data).first(bias.given ? 4 : 3));
  }
  return true;
}

// Matrices that oneDNN would be called for one after the other, each too small to share among threads.
bool is_many_small(const BatchedMatmul& matmul) {
  constexpr double kSmallFlops = 4e6;
  return matmul.outer.size() > 1 && matmul.problem.flops() < kSmallFlops;
}

// A product over no elements: zeros, or the bias.
void fill_rows(const KernelContext& context, const TensorView& bias) {
  const TensorView& y = context.out();
  if (!bias.given) {
    std::memset(y.data, 0, static_cast<std::size_t>(y.numel() * size_of(y.dtype)));
    return;
  }
  TensorView rows = bias;
  rows.shape = y.shape;
  rows.strides = {0, bias.strides[0]};
  convert(context.op, rows, y);
}

void multiply(const KernelContext& context, Kernel self, const TensorView& a, const TensorView& b,
              const TensorView& bias) {
  const TensorView& y = context.out();
  if (y.numel() == 0) return;
  if (a.shape.back() == 0) return fill_rows(context, bias);
  if (y.dtype == DType::f16) return run_in_f32(context, self);
  FERRY_CHECK(is_floating(y.dtype), InvalidArgument, "{}: there is no kernel for {}", context.op, name_of(y.dtype));
  const BatchedMatmul matmul = prepare_matmul(context.op, a, b, y);
  if (y.dtype == DType::f64 || (y.dtype == DType::f32 && is_many_small(matmul))) {
    return tile_matmul(matmul, y.dtype, bias);
  }
  if (!multiply_with_dnn(context.op, matmul, y.dtype, bias)) run_in_f32(context, self);
}

}  // namespace

void matmul(const KernelContext& context) { multiply(context, matmul, context.in(0), context.in(1), {}); }

void linear(const KernelContext& context) {
  TensorView transposed = context.in(1);
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  multiply(context, linear, context.in(0), transposed, context.has_input(2) ? context.in(2) : TensorView{});
}

}  // namespace ferry::cpu_backend
