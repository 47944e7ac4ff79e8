#include "tests/support/bad_call.h"

namespace ferry::test {

Words::Words(std::initializer_list<std::string_view> words) : words_(words.begin(), words.end()) {}
Words::Words(const Words& other) = default;
Words& Words::operator=(const Words& other) = default;
Words::~Words() = default;

void Words::add(std::string_view word) { words_.emplace_back(word); }

}  // namespace ferry::test
