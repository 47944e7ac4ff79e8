// Searches in bytes, sixteen at a time where the processor can.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ferry::profiler::importers {

#if defined(__SSE2__)
// The first byte in [p, end) for which `test` holds; `hits` gives a mask of the bytes of 16 for which it does.
template <class Hits, class Test>
const char* find_first(const char* p, const char* end, Hits hits, Test test) {
  for (; end - p >= 16; p += 16) {
    const int mask = _mm_movemask_epi8(hits(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    if (mask != 0) return p + __builtin_ctz(static_cast<unsigned>(mask));
  }
  while (p != end && !test(*p)) ++p;
  return p;
}
#else
template <class Hits, class Test>
const char* find_first(const char* p, const char* end, Hits, Test test) {
  while (p != end && !test(*p)) ++p;
  return p;
}
#endif

// The next quote or backslash, or `end`.
inline const char* find_quote(const char* p, const char* end) {
  const auto test = [](char c) { return c == '"' || c == '\\'; };
#if defined(__SSE2__)
  const auto hits = [](__m128i bytes) {
    return _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
  };
#else
  const int hits = 0;
#endif
  return find_first(p, end, hits, test);
}

// The next quote or bracket of either kind, or `end`.
inline const char* find_structure(const char* p, const char* end) {
  // Braces and square brackets differ in one bit.
  const auto test = [](char c) { return c == '"' || (c | 0x20) == '{' || (c | 0x20) == '}'; };
#if defined(__SSE2__)
  const auto hits = [](__m128i bytes) {
    const __m128i braces = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    return _mm_or_si128(
        _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
        _mm_or_si128(_mm_cmpeq_epi8(braces, _mm_set1_epi8('{')), _mm_cmpeq_epi8(braces, _mm_set1_epi8('}'))));
  };
#else
  const int hits = 0;
#endif
  return find_first(p, end, hits, test);
}

}  // namespace ferry::profiler::importers
