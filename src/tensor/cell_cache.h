// Memory for the small objects that every op call makes: freed cells are kept by the thread that freed them and handed
// out again without a lock. For std::allocate_shared.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace ferry {

// Cells of one size. A thread keeps at most kKept; the rest, and all at its end, go back to the system. Under
// AddressSanitizer nothing is kept, so that a use after free is found.
template <std::size_t size>
class CellCache {
 public:
  static void* take() {
    List& list = mine();
    if (list.first == nullptr) return ::operator new(size);
    Cell* cell = list.first;
    list.first = cell->next;
    --list.count;
    return cell;
  }

  static void give_back(void* memory) noexcept {
    List& list = mine();
    if (list.count >= list.limit) return ::operator delete(memory);
    list.first = new (memory) Cell{list.first};
    ++list.count;
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr int kKept = 0;
#else
  static constexpr int kKept = 256;
#endif

  struct Cell {
    Cell* next;
  };
  // Trivially destructible, so that objects of static storage may still come back after the thread's end.
  struct List {
    Cell* first = nullptr;
    int count = 0;
    int limit = kKept;
  };
  struct AtThreadEnd {
    ~AtThreadEnd() {
      list_.limit = 0;
      while (list_.first != nullptr) {
        Cell* cell = list_.first;
        list_.first = cell->next;
        ::operator delete(cell);
      }
    }
  };

  static List& mine() {
    if (list_.first == nullptr && list_.count == 0 && list_.limit != 0) [[unlikely]] {
      static thread_local const AtThreadEnd kEmptied;
      (void)kEmptied;
    }
    return list_;
  }

  static inline thread_local constinit List list_{};
};

template <class T>
struct CellAllocator {
  using value_type = T;
  CellAllocator() = default;
  template <class U>
  CellAllocator(const CellAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t) { return static_cast<T*>(CellCache<sizeof(T)>::take()); }
  void deallocate(T* cell, std::size_t) noexcept { CellCache<sizeof(T)>::give_back(cell); }
  template <class U>
  bool operator==(const CellAllocator<U>&) const {
    return true;
  }
};

// std::make_shared from a cell.
template <class T, class... Arguments>
std::shared_ptr<T> make_cell(Arguments&&... arguments) {
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  return std::allocate_shared<T>(CellAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace ferry
