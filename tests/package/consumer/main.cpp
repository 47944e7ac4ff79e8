// One training step on the simulated GPU with the first layer on the CPU, by a project that has only the installed
// package.
#include <cstdio>
#include <string>
#include <vector>

#include <ferry/ferry.h>

int main() {
  ferry::Runtime runtime{{.device = "sim:rtx2080ti"}};
  ferry::Profiler profiler;

  ferry::Tensor table = ferry::named(ferry::from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2}), "table");
  table.set_requires_grad();
  const ferry::Tensor ids = ferry::from_vector<std::int64_t>({2, 0});
  ferry::Tensor rows;
  {
    ferry::DeviceGuard<ferry::cpu> guard;
    rows = ferry::embedding(table, ids);
  }
  const ferry::Tensor loss = ferry::sum(rows * 3.0);
  loss.backward();

  const std::vector<float> expected{3, 3, 0, 0, 3, 3};
  const bool correct = loss.device().is_gpu() && loss.item() == 42 && table.grad().to_vector<float>() == expected;
  const std::string report = profiler.report();
  std::printf("%s\n", report.c_str());
  return correct && report.find("embedding") != std::string::npos ? 0 : 1;
}
