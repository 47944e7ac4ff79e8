#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/fill.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/strided.h"
#include "src/backends/cpu/view_ops.h"
#include "src/kernels/convert.h"
#include "src/ops/attributes.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// Writes elements, repeated to eight bytes in `word`, past the cache: a large fill would only push out what is in use.
// Requires: `to` aligned to the element's size, `bytes` a multiple of it.
void stream_words(std::int64_t bytes, std::byte* to, std::uint64_t word) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint64_t> tag;
  const auto vector = hn::Set(tag, word);
  const auto step = static_cast<std::int64_t>(hn::Lanes(tag)) * 8;
  const auto* const pattern = reinterpret_cast<const std::byte*>(&word);
  const auto misaligned =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % static_cast<std::uint64_t>(step));
  const std::int64_t lead = misaligned == 0 ? 0 : std::min(bytes, step - misaligned);
  std::int64_t i = 0;
  for (; i < lead; ++i) to[i] = pattern[i % 8];
  for (; i + step <= bytes; i += step) hn::Stream(vector, tag, reinterpret_cast<std::uint64_t*>(to + i));
  for (std::int64_t j = 0; i < bytes; ++i, ++j) to[i] = pattern[j % 8];
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(stream_words);

namespace {

constexpr std::int64_t kStreamFrom = std::int64_t{16}
                                     << 20;  // bytes that no cache is likely to hold until they are read

template <class Word>
Word word_of(DType dtype, double value) {
  Word word{};
  const auto put = [&](auto element) { std::memcpy(&word, &element, std::min(sizeof element, sizeof word)); };
  switch (dtype) {
    case DType::f32:
      put(kernels::convert<float>(value));
      break;
    case DType::f64:
      put(value);
      break;
    case DType::f16:
      put(kernels::convert<float16>(value));
      break;
    case DType::bf16:
      put(kernels::convert<bfloat16>(value));
      break;
    case DType::i32:
      put(kernels::convert<std::int32_t>(value));
      break;
    case DType::i64:
      put(kernels::convert<std::int64_t>(value));
      break;
    case DType::u8:
      put(kernels::convert<std::uint8_t>(value));
      break;
    case DType::boolean:
      put(kernels::convert<bool>(value));
      break;
  }
  return word;
}

template <class Word>
void fill_words(const TensorView& y, Word word) {
  const std::int64_t count = contiguous_count(y);
  if (count >= 0 && count <= kElementGrain) {
    std::fill_n(y.as<Word>(), count, word);
    return;
  }
  std::uint64_t repeated = 0;
  for (std::size_t i = 0; i < sizeof repeated; i += sizeof word)
    std::memcpy(reinterpret_cast<char*>(&repeated) + i, &word, sizeof word);
  const auto walk = make_walk<1>({&y});
  const std::int64_t step = walk.inner_strides()[0] / std::int64_t{sizeof(Word)};
  const bool stream = walk.count * std::int64_t{sizeof(Word)} >= kStreamFrom;
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 1>& at) {
    auto* const row = reinterpret_cast<Word*>(at[0]);
    if (step == 1 && stream) {
      HWY_DYNAMIC_DISPATCH(stream_words)(n * std::int64_t{sizeof(Word)}, at[0], repeated);
    } else if (step == 1) {
      std::fill_n(row, n, word);
    } else {
      for (std::int64_t i = 0; i < n; ++i) row[i * step] = word;
    }
  });
}

}  // namespace

void fill_view(const TensorView& y, double value) {
  switch (size_of(y.dtype)) {
    case 1:
      return fill_words(y, word_of<std::uint8_t>(y.dtype, value));
    case 2:
      return fill_words(y, word_of<std::uint16_t>(y.dtype, value));
    case 4:
      return fill_words(y, word_of<std::uint32_t>(y.dtype, value));
    default:
      return fill_words(y, word_of<std::uint64_t>(y.dtype, value));
  }
}

void fill(const KernelContext& context) {
  fill_view(context.out(), context.attributes.as<ops::FillAttributes>().value);
}

void arange(const KernelContext& context) {
  const TensorView& y = context.out();
  const auto& attributes = context.attributes.as<ops::ArangeAttributes>();
  visit_all(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const to = y.as<T>();
    const std::int64_t count = y.numel();
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = kernels::convert<T>(attributes.start + static_cast<double>(i) * attributes.step);
    }
  });
}

}  // namespace ferry::cpu_backend
#endif
