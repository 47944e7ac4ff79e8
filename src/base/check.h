// FERRY_CHECK(condition, ErrorType, format, arguments…): throws ErrorType with a formatted message unless condition.
#pragma once

#include <fmt/format.h>

#include <ferry/error.h>

#define FERRY_CHECK(condition, ErrorType, ...)   \
  do {                                           \
    if (!(condition)) [[unlikely]]               \
      throw ErrorType(fmt::format(__VA_ARGS__)); \
  } while (false)
