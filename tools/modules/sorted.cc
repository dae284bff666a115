// Sorts the lines of its input by their length, with the library of C++.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

int main() {
  auto lines = std::make_unique<std::vector<std::string>>();
  std::string line;
  for (int c = 0; (c = std::getchar()) != EOF;) {
    if (c != '\n') line += static_cast<char>(c);
    else lines->push_back(std::exchange(line, {}));
  }
  std::stable_sort(lines->begin(), lines->end(), [](auto& a, auto& b) { return a.size() < b.size(); });
  std::map<size_t, int> sizes;
  for (const auto& each : *lines) {
    std::printf("%s\n", each.c_str());
    ++sizes[each.size()];
  }
  for (const auto& [size, count] : sizes) std::printf("%zu: %d\n", size, count);
}
