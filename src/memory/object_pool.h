// Objects of one type from chunks that are kept: get and put cost a few instructions and addresses stay valid.
//
// Not thread-safe. Objects still out when the pool dies are destroyed with it.
#pragma once

#include <deque>
#include <vector>

namespace ferry::memory {

template <typename T>
class ObjectPool {
 public:
  // A value-initialised object. Throws: std::bad_alloc, and then nothing has changed.
  T* get() {
    if (free_.empty()) {
      T* object = &objects_.emplace_back();
      try {
        if (free_.capacity() < objects_.size()) free_.reserve(2 * objects_.size());  // so that put never allocates
      } catch (...) {
        objects_.pop_back();
        throw;
      }
      return object;
    }
    T* object = free_.back();
    free_.pop_back();
    *object = T{};
    return object;
  }
  void put(T* object) noexcept { free_.push_back(object); }

 private:
  std::deque<T> objects_;
  std::vector<T*> free_;
};

}  // namespace ferry::memory
