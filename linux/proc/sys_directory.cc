// /sys, as far as programs look that ask for the number of processors.
#include "linux/kernel/version.h"
#include "linux/proc/directories.h"
#include "linux/proc/made_node.h"

namespace membrane::linux {
namespace {

using Child = MadeDirectory::Child;
using Children = MadeDirectory::Children;

constexpr uint64_t kSysDevice = 0x17;

Child fixed(std::string text) {
  return made_text([text = std::move(text)]() -> Try<std::string> { return text; });
}
Child directory(Children children) {
  return made_directory(std::make_shared<const Children>(std::move(children)));
}

Child processor(int number) {
  return directory(
      {{"online", fixed("1\n")},
       {"topology", directory({{"core_id", fixed(std::to_string(number) + "\n")},
                               {"physical_package_id", fixed("0\n")},
                               {"thread_siblings_list", fixed(std::to_string(number) + "\n")}})}});
}

Child processors() {
  const std::string all = "0-" + std::to_string(kProcessors - 1) + "\n";
  Children children = {{"kernel_max", fixed("63\n")},
                       {"offline", fixed("\n")},
                       {"online", fixed(all)},
                       {"possible", fixed(all)},
                       {"present", fixed(all)}};
  for (int i = 0; i < kProcessors; ++i) children["cpu" + std::to_string(i)] = processor(i);
  return directory(std::move(children));
}

Child transparent_huge_pages() {
  return directory({{"enabled", fixed("always [madvise] never\n")}, {"hpage_pmd_size", fixed("2097152\n")}});
}

}  // namespace

NodeRef make_sys_directory(Kernel&) {
  Children root = {
      {"block", directory({})},
      {"bus", directory({})},
      {"class", directory({{"net", directory({})}})},
      {"devices", directory({{"system", directory({{"cpu", processors()},
                                                   {"node", directory({{"online", fixed("0\n")},
                                                                       {"possible", fixed("0\n")}})}})}})},
      {"fs", directory({{"cgroup", directory({})}})},
      {"kernel", directory({{"mm", directory({{"transparent_hugepage", transparent_huge_pages()}})}})},
      {"module", directory({})},
  };
  return std::make_shared<MadeDirectory>(MadeWith{.device = kSysDevice, .number = 1, .permissions = 0555},
                                         nullptr, std::make_shared<const Children>(std::move(root)));
}

}  // namespace membrane::linux
