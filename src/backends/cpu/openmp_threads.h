// oneDNN's OpenMP threads beside TBB's.
#pragma once

namespace ferry::cpu_backend {

// Lets OpenMP's idle threads sleep soon, once a process.
//
// After each parallel region libgomp's threads spin for milliseconds, on the cores that the next TBB loop needs. It
// spins a thousandth of that while there are more OpenMP threads than processors (libgomp manual, GOMP_SPINCOUNT), and
// reads its environment before any library could set it. So one sleeping team more is kept.
void let_idle_openmp_threads_sleep();

}  // namespace ferry::cpu_backend
