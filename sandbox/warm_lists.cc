#include "sandbox/warm_lists.h"

#include <algorithm>

namespace membrane::sandbox {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         (c & 0x80) != 0;
}

// Reads the words of one statement.
class Words {
 public:
  explicit Words(std::string_view text) : left_(text) {}

  bool skip(char c) {
    skip_blanks();
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  std::string_view word() {
    skip_blanks();
    const auto end = std::ranges::find_if_not(left_, is_name);
    const std::string_view found = left_.substr(0, static_cast<size_t>(end - left_.begin()));
    left_.remove_prefix(found.size());
    return found;
  }
  // "a" for a.b.c.
  std::string_view package() {
    const std::string_view first = word();
    while (skip('.')) word();
    return first;
  }

 private:
  void skip_blanks() { left_.remove_prefix(std::min(left_.find_first_not_of(" \t"), left_.size())); }
  std::string_view left_;
};

std::string_view package_of(std::string_view module) { return module.substr(0, module.find('.')); }

}  // namespace

std::vector<std::string_view> imported_packages(std::string_view program) {
  constexpr size_t kMost = 200;  // the choice need not consider further imports
  std::vector<std::string_view> packages;
  const auto add = [&](std::string_view name) {
    if (packages.size() < kMost && !name.empty() && std::ranges::find(packages, name) == packages.end())
      packages.push_back(name);
  };
  while (!program.empty()) {
    const size_t end = std::min(program.find_first_of("\n;:"), program.size());
    Words words(program.substr(0, end));
    program.remove_prefix(std::min(end + 1, program.size()));
    const std::string_view keyword = words.word();
    if (keyword == "from") add(words.package());
    if (keyword != "import") continue;
    do {
      add(words.package());
      if (words.word() == "as") words.word();
    } while (words.skip(','));
  }
  return packages;
}

const std::vector<std::string>* best_warm_list(const std::vector<std::vector<std::string>>& lists,
                                               const std::vector<std::string_view>& packages) {
  const std::vector<std::string>* best = nullptr;
  size_t most = 0;
  for (const std::vector<std::string>& list : lists) {
    const auto has = static_cast<size_t>(std::ranges::count_if(packages, [&](std::string_view package) {
      return std::ranges::find(list, package, [](const std::string& m) { return package_of(m); }) !=
             list.end();
    }));
    if (has > most || (has == most && best != nullptr && list.size() < best->size())) best = &list;
    most = std::max(most, has);
  }
  return best;
}

const std::vector<std::string>* largest_warm_list(const std::vector<std::vector<std::string>>& lists) {
  const auto largest = std::ranges::max_element(lists, {}, &std::vector<std::string>::size);
  return largest == lists.end() ? nullptr : &*largest;
}

}  // namespace membrane::sandbox
