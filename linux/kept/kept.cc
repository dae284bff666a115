#include "linux/kept/kept.h"

#include <unistd.h>

#include "linux/kept/tree_state.h"

namespace membrane::linux {

namespace {

std::unexpected<Error> no_tree() {
  return fail(ErrorCode::kInvalidArgument, "this root directory does not belong to a writable tree");
}

std::unexpected<Error> refused(int error, std::string_view what) {
  if (error == ENOSPC)
    return fail(ErrorCode::kExhausted, "the kept sandbox has more files than this one may have",
                "Raise its disk limit.");
  return damaged_kept_file(what);
}

}  // namespace

Status keep_files(const NodeRef& root, const std::string& image, int file) {
  Tree* const tree = TreeState::tree_of(root.get());
  if (tree == nullptr) return no_tree();
  StateWriter state;
  PageWriter pages(file, kPageBytes);
  TreeState::write(*tree, false, state, pages);
  MEMBRANE_TRY(pages.finish());
  KeptHeader header;
  name_image(header, tree->options().image.get(), image);
  return write_state(file, pages.end(), state.bytes(), header);
}

Status keep_sandbox(Kernel& kernel, const std::vector<KeptCommand>& commands, const std::string& image,
                    int file) {
  Tree* const tree = TreeState::tree_of(kernel.root->node.get());
  if (tree == nullptr) return no_tree();
  StateWriter state;
  PageWriter pages(file, kPageBytes);
  TreeState::write(*tree, true, state, pages);
  KernelState::write(kernel, commands, state, pages);
  MEMBRANE_TRY(pages.finish());
  KeptHeader header;
  header.flags = KeptHeader::kHasProcesses;
  if (const auto start_ms = kernel.options().clock->start_ms()) {
    header.flags |= KeptHeader::kIsVirtual;
    header.start_ms = *start_ms;
  }
  name_image(header, tree->options().image.get(), image);
  return write_state(file, pages.end(), state.bytes(), header);
}

Result<RestoredTree> restore_tree(const KeptFile& kept, TreeOptions options) {
  const std::string_view digest = options.image ? options.image->digest() : std::string_view();
  if (digest != kept.facts().image_digest)
    return fail(ErrorCode::kInvalidInput, "the sandbox was saved over another image",
                "Pass the image with the digest " + kept.facts().image_digest + ".");
  RestoredTree tree = {.root = make_tree(std::move(options)), .rest = kept.state(), .held = {}};
  const Done read = TreeState::read(*TreeState::tree_of(tree.root.get()), tree.rest, kept.pages(), tree.held);
  if (!read) return refused(read.error(), "its files are damaged");
  return tree;
}

Status restore_processes(Kernel& kernel, const KeptFile& kept, RestoredTree& tree,
                         std::vector<KeptCommand>& commands) {
  if (!kept.facts().has_processes) return {};
  return KernelState::read(kernel, tree.rest, kept.pages(), tree.held, commands);
}

}  // namespace membrane::linux
