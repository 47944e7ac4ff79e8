// Calls that must fail, with what their messages must say.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <ferry/ops.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {

struct BadCall {
  std::string name;
  std::function<void()> call;
  std::vector<std::string> words;  // in the message, besides the line in `file`
};

template <class E>
void expect_errors(const std::vector<BadCall>& calls, const std::string& file) {
  for (const BadCall& bad : calls) {
    SCOPED_TRACE(bad.name);
    const std::string message = message_of<E>(bad.call);
    for (const std::string& word : bad.words) EXPECT_THAT(message, ::testing::HasSubstr(word));
    EXPECT_THAT(message, ::testing::HasSubstr(file + ":"));
  }
}

inline Tensor of(const Shape& shape, DType dtype = DType::f32) { return zeros(shape, dtype); }

}  // namespace ferry::test
