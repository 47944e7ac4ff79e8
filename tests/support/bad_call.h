// Calls that must fail, with what their messages must say.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/ops.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {

// Strings that are made and freed out of line: tables of hundreds of calls compile several times faster.
class Words {
 public:
  Words(std::initializer_list<std::string_view> words);
  Words(const Words& other);
  Words& operator=(const Words& other);
  ~Words();

  void add(std::string_view word);
  const std::vector<std::string>& all() const { return words_; }

 private:
  std::vector<std::string> words_;
};

struct BadCall {
  std::string_view name;
  std::function<void()> call;
  Words words;  // in the message, besides the line in `file`
};

template <class E>
void expect_errors(const std::vector<BadCall>& calls, const std::string& file) {
  for (const BadCall& bad : calls) {
    SCOPED_TRACE(bad.name);
    const std::string message = message_of<E>(bad.call);
    for (const std::string& word : bad.words.all()) EXPECT_THAT(message, ::testing::HasSubstr(word));
    EXPECT_THAT(message, ::testing::HasSubstr(file + ":"));
  }
}

inline Tensor of(const Shape& shape, DType dtype = DType::f32) { return zeros(shape, dtype); }

}  // namespace ferry::test
