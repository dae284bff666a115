// Untrusted images: reads all of one, as a sandbox and an export do.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "linux/fs/tree.h"
#include "linux/image/layer_writer.h"

namespace membrane::linux {
namespace {

// Gives the bytes a valid header, so that the parser reaches what follows.
std::string file_of(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  LayerHeader header;
  const LayerHeader fresh;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::memcpy(header.magic, fresh.magic, sizeof header.magic);
  header.version = fresh.version;
  header.file_bytes = size;
  header.check = check_of(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

void walk(const NodeRef& root) {
  std::vector<NodeRef> left = {root};
  for (int count = 0; count < 500 && !left.empty(); ++count) {
    const NodeRef node = std::move(left.back());
    left.pop_back();
    const Attributes facts = node->attributes();
    std::byte bytes[100];
    (void)node->read(facts.size / 2, bytes);
    (void)node->target();
    (void)node->attribute_names();
    (void)node->mapping(0, 4096, false);
    (void)node->list(0, [&](const DirectoryEntry& entry) {
      if (entry.name.empty() || entry.name.find('/') != entry.name.npos) std::abort();
      if (const auto child = node->look_up(entry.name)) left.push_back(*child);
      return left.size() < 1000;
    });
    (void)node->create("new", {});
    (void)node->unlink("new");
    if (facts.size < 1u << 20) (void)node->write(facts.size, std::as_bytes(std::span("x")));
    (void)node->rename("a", *root, "b", 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < sizeof(LayerHeader) || size > 1u << 16) return 0;
  static const std::string path = "/tmp/linux_image_fuzz." + std::to_string(getpid());
  static const std::string copy = path + ".copy";
  const std::string bytes = file_of(data, size);
  FILE* const file = fopen(path.c_str(), "wb");
  if (file == nullptr) return 0;
  fwrite(bytes.data(), 1, bytes.size(), file);
  fclose(file);
  if (const auto image = Layer::open(path)) {
    (void)(*image)->config();
    walk(make_tree({.image = *image, .most_bytes = 1u << 20, .most_nodes = 1000}));
    // What can be loaded can be written, and stays the same.
    LayerTree tree;
    if (tree.load(*image)) {
      const auto digest = tree.write(copy, (*image)->config());
      LayerTree again;
      const auto second = Layer::open(copy);
      if (digest &&
          (!second || !again.load(*second) || again.write(copy, (*second)->config()).value() != *digest))
        std::abort();
      unlink(copy.c_str());
    }
  }
  unlink(path.c_str());
  return 0;
}

}  // namespace membrane::linux
