#include "src/backends/cpu/dnn.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ferry::cpu_backend::dnn {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMostSpare = 8 * kHugePage;  // what a growing buffer takes beyond what was asked for
// Above this, about 80 us on one core, waking a sleeping team (up to 70 us) pays.
constexpr double kTeamFlops = 1.5e7;

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

struct Free {
  void operator()(std::byte* pointer) const { std::free(pointer); }
};

struct GrowingBuffer {
  std::unique_ptr<std::byte, Free> data;
  std::size_t size = 0;

  std::byte* at_least(std::size_t wanted) {
    if (wanted <= size) return data.get();
    // Growing in large steps keeps a run with ever larger shapes from faulting the pages in anew each time.
    const std::size_t grown = std::max(wanted, size + std::min(size / 2, kMostSpare));
    const std::size_t alignment = grown >= kHugePage ? kHugePage : kAlignment;
    const std::size_t rounded = round_up(grown, alignment);
    data.reset();
    size = 0;
    data.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
    if (!data) {
      throw OutOfMemory(
          fmt::format("the host has no {} left for an op's work buffer",
                      to_string(Bytes{static_cast<std::int64_t>(rounded)})),
          {.requested = Bytes{static_cast<std::int64_t>(rounded)}, .allocated = {}, .reserved = {}, .limit = {}});
    }
#if defined(__linux__)
    if (alignment == kHugePage) madvise(data.get(), rounded, MADV_HUGEPAGE);
#endif
    size = rounded;
    return data.get();
  }
};

dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream(engine());
  return stream;
}

// Not named bind: with a std::string_view that would be std::bind wherever <functional> is included.
void point_at(std::string_view op, const dnnl::memory& memory, void* data) {
  check(op, dnnl_memory_set_data_handle(memory.get(), data));
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type data_type(DType type) {
  switch (type) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    case DType::f16:
      return dnnl::memory::data_type::f16;
    default:
      throw InvalidArgument(fmt::format("oneDNN kernels do not take {}", name_of(type)));
  }
}

void throw_error(std::string_view op, const char* what, dnnl_status_t status) {
  throw DeviceError(fmt::format("{}: oneDNN: {} (status {})", op, what, static_cast<int>(status)),
                    static_cast<int>(status));
}

std::byte* work_buffer(Buffer buffer, std::size_t size) {
  thread_local std::array<GrowingBuffer, 4> buffers;
  return buffers[static_cast<std::size_t>(buffer)].at_least(std::max(size, kAlignment));
}

TeamScope::TeamScope(double flops) {
  if (flops >= kTeamFlops) return;
  const int threads = omp_get_max_threads();
  if (threads == 1) return;
  restore_ = threads;
  omp_set_num_threads(1);
}

TeamScope::~TeamScope() {
  if (restore_ != 0) omp_set_num_threads(restore_);
}

Key::Key(std::uint32_t kind) {
  add(kind);
  add(omp_get_max_threads());
}

Key& Key::add(const TensorView& view) {
  add(static_cast<std::int64_t>(view.dtype) * 2 + (view.given ? 1 : 0));
  add(view.shape);
  return add(std::span(view.strides.begin(), static_cast<std::size_t>(view.strides.rank())));
}

std::size_t Key::hash() const noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  for (std::size_t i = 0; i < size_; ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(values_[i])) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Plan::Plan(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, std::span<const Argument> arguments)
    : primitive_(primitive) {
  std::size_t scratchpad_size = scratchpad.get_size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    memories_.emplace_back(argument.wanted, engine(), nullptr);
    execute_args_.push_back({argument.id, memories_.back().get()});
    reordered_.push_back(argument.given != argument.wanted);
    if (!reordered_.back()) continue;
    const bool in = argument.direction == Direction::in;
    const dnnl::reorder::primitive_desc description(engine(), in ? argument.given : argument.wanted, engine(),
                                                    in ? argument.wanted : argument.given, user_scratchpad());
    scratchpad_size = std::max(scratchpad_size, description.scratchpad_desc().get_size());
    reorders_.push_back({.argument = i,
                         .direction = argument.direction,
                         .primitive = dnnl::reorder(description),
                         .given = dnnl::memory(argument.given, engine(), nullptr),
                         .wanted = memories_.back(),
                         .offset = buffer_size_});
    buffer_size_ += round_up(argument.wanted.get_size(), kAlignment);
  }
  // oneDNN looks at a scratchpad's pointer only: the primitive and the reorders take turns with the largest one.
  scratchpad_ = dnnl::memory(dnnl::memory::desc({static_cast<dnnl::memory::dim>(std::max(scratchpad_size, kAlignment))},
                                                dnnl::memory::data_type::u8, dnnl::memory::format_tag::a),
                             engine(), nullptr);
  execute_args_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
  scratchpad_offset_ = buffer_size_;
  buffer_size_ += std::max(scratchpad_size, kAlignment);
}

void Plan::execute(std::string_view op, const dnnl::primitive& primitive,
                   std::span<const dnnl_exec_arg_t> arguments) const {
  check(op, dnnl_primitive_execute(primitive.get(), thread_stream().get(), static_cast<int>(arguments.size()),
                                   arguments.data()));
}

void Plan::reorder(std::string_view op, const Reorder& step, void* data) const {
  const bool in = step.direction == Direction::in;
  point_at(op, step.given, data);
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, (in ? step.given : step.wanted).get()},
                                       {DNNL_ARG_TO, (in ? step.wanted : step.given).get()},
                                       {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}};
  execute(op, step.primitive, arguments);
}

void Plan::run(std::string_view op, std::span<void* const> data) {
  std::byte* const buffer = work_buffer(Buffer::primitive, buffer_size_);
  point_at(op, scratchpad_, buffer + scratchpad_offset_);
  for (const Reorder& step : reorders_) point_at(op, step.wanted, buffer + step.offset);
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    if (!reordered_[i]) point_at(op, memories_[i], data[i]);
  }
  for (const Reorder& step : reorders_) {
    if (step.direction == Direction::in) reorder(op, step, data[step.argument]);
  }
  execute(op, primitive_, execute_args_);
  for (const Reorder& step : reorders_) {
    if (step.direction == Direction::out) reorder(op, step, data[step.argument]);
  }
}

Cache<Plan>& plans() {
  thread_local Cache<Plan> cache;
  return cache;
}

}  // namespace ferry::cpu_backend::dnn
