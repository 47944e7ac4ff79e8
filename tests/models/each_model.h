// Tests that run once for each model of the list.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <ferry/models.h>

namespace ferry::test {

class EachModel : public ::testing::TestWithParam<models::Entry> {};

inline std::string model_name(const ::testing::TestParamInfo<models::Entry>& entry) {
  std::string name(entry.param.name);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

inline auto every_model() { return ::testing::ValuesIn(models::all().begin(), models::all().end()); }

}  // namespace ferry::test

namespace ferry::models {
inline std::ostream& operator<<(std::ostream& out, const Entry& entry) { return out << entry.name; }
}  // namespace ferry::models
