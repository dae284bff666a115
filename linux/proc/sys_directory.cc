// /sys, as far as programs that ask for the number of processors need it.
#include <dirent.h>

#include "linux/files/certificate_files.h"
#include "linux/files/interfaces.h"
#include "linux/files/socket_end.h"
#include "linux/kernel/version.h"
#include "linux/proc/directories.h"
#include "linux/proc/made_node.h"
#include "linux/proc/text.h"

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

std::string address_text(const std::array<uint8_t, 6>& address) {
  return text_of("%02x:%02x:%02x:%02x:%02x:%02x\n", address[0], address[1], address[2], address[3],
                 address[4], address[5]);
}

Child interface_directory(const Interface& of) {
  Children counts;
  for (const char* const name : {"rx_bytes", "rx_dropped", "rx_errors", "rx_packets", "tx_bytes",
                                 "tx_dropped", "tx_errors", "tx_packets"})
    counts[name] = fixed("0\n");
  return directory({{"address", fixed(address_text(of.hardware_address))},
                    {"broadcast", fixed(address_text(of.hardware_broadcast))},
                    {"carrier", fixed("1\n")},
                    {"flags", fixed(text_of("0x%x\n", of.flags & 0xffff))},
                    {"ifindex", fixed(std::to_string(of.index) + "\n")},
                    {"mtu", fixed(std::to_string(of.mtu) + "\n")},
                    {"operstate", fixed(of.is_loopback() ? "unknown\n" : "up\n")},
                    {"statistics", directory(std::move(counts))},
                    {"tx_queue_len", fixed("1000\n")},
                    {"type", fixed(std::to_string(of.hardware) + "\n")}});
}

// The interfaces are known once a network has been attached.
class InterfaceDirectories final : public MadeDirectory {
 public:
  InterfaceDirectories(Kernel& kernel, const MadeWith& with, NodeRef above)
      : MadeDirectory(with, std::move(above)), kernel_(kernel) {}

 protected:
  Try<Child> changing_child(std::string_view name) override {
    const Interface* const found = find_interface(network(), name);
    if (found == nullptr) return err(ENOENT);
    return interface_directory(*found);
  }
  Try<std::vector<Listed>> changing_names() override {
    std::vector<Listed> names;
    for (const Interface& each : interfaces(network()))
      names.push_back({std::string(each.name), DT_DIR, kFirstChangingKey + each.index});
    return names;
  }

 private:
  [[nodiscard]] const Network* network() const {
    return kernel_.sockets == nullptr ? nullptr : kernel_.sockets->network;
  }
  Kernel& kernel_;
};

std::string_view certificate_of(const Kernel& kernel) {
  const Network* const network = kernel.sockets == nullptr ? nullptr : kernel.sockets->network;
  return network == nullptr ? std::string_view() : network->certificate();
}

// The image's usual certificates, if any, and the network's.
Try<std::string> all_certificates(const Kernel& kernel) {
  const Place place = {.root = kernel.root, .directory = kernel.root};
  for (const std::string_view path : kCertificateFiles) {
    const auto found = walk(kernel.mounts, place, kernel.root, path, Credentials());
    if (found && (*found)->node->type() == S_IFREG)
      return text_with_certificate(*(*found)->node, certificate_of(kernel));
  }
  return std::string(certificate_of(kernel));
}

// Lists the certificates; this is not one of Linux's own directories.
Child certificates(Kernel& kernel) {
  return directory(
      {{"ca.pem", made_text([&kernel]() -> Try<std::string> { return std::string(certificate_of(kernel)); })},
       {"certificates.pem", made_text([&kernel] { return all_certificates(kernel); })}});
}

}  // namespace

NodeRef make_sys_directory(Kernel& kernel) {
  const Child interfaces_child = {S_IFDIR, 0555,
                                  [&kernel](const MadeWith& with, const NodeRef& above) -> NodeRef {
                                    return std::make_shared<InterfaceDirectories>(kernel, with, above);
                                  }};
  Children root = {
      {"block", directory({})},
      {"bus", directory({})},
      {"class", directory({{"net", interfaces_child}})},
      {"devices", directory({{"system", directory({{"cpu", processors()},
                                                   {"node", directory({{"online", fixed("0\n")},
                                                                       {"possible", fixed("0\n")}})}})}})},
      {"fs", directory({{"cgroup", directory({})}})},
      {"kernel", directory({{"mm", directory({{"transparent_hugepage", transparent_huge_pages()}})}})},
      {"membrane", certificates(kernel)},
      {"module", directory({})},
  };
  return std::make_shared<MadeDirectory>(MadeWith{.device = kSysDevice, .number = 1, .permissions = 0555},
                                         nullptr, std::make_shared<const Children>(std::move(root)));
}

}  // namespace membrane::linux
