#include "linux/kept/kept.h"

#include <unistd.h>

#include "linux/kept/tree_state.h"

namespace membrane::linux {

Status keep_files(const NodeRef& root, const std::string& image, int file) {
  Tree* const tree = TreeState::tree_of(root.get());
  if (tree == nullptr)
    return fail(ErrorCode::kInvalidArgument, "this root directory is not that of a writable tree");
  StateWriter state;
  PageWriter pages(file, kPageBytes);
  TreeState::write(*tree, false, state, pages);
  MEMBRANE_TRY(pages.finish());
  return write_state(file, pages.end(), state.bytes(), 0, tree->options().image.get(), image);
}

namespace {

std::unexpected<Error> refused(int error, std::string_view what) {
  if (error == ENOSPC)
    return fail(ErrorCode::kExhausted, "the kept sandbox has more files than this one may have",
                "Raise its limit of the disk.");
  return damaged_kept_file(what);
}

}  // namespace

Result<NodeRef> restore_files(const KeptFile& kept, TreeOptions options) {
  const std::string_view digest = options.image ? options.image->digest() : std::string_view();
  if (digest != kept.image_digest())
    return fail(ErrorCode::kInvalidInput, "the sandbox was kept over another image",
                "Give the image whose digest is " + std::string(kept.image_digest()) + ".");
  NodeRef root = make_tree(std::move(options));
  StateReader state = kept.state();
  std::vector<NodeRef> held;
  if (const Done read = TreeState::read(*TreeState::tree_of(root.get()), state, kept.pages(), held); !read)
    return refused(read.error(), "its files are damaged");
  return root;
}

Result<NodeRef> restore_files(const KeptFile& kept, const std::string& image, TreeOptions options) {
  options.image = nullptr;
  if (!kept.image_digest().empty()) {
    MEMBRANE_ASSIGN(options.image, Layer::open(image.empty() ? kept.image_name() : image));
  }
  return restore_files(kept, std::move(options));
}

}  // namespace membrane::linux
