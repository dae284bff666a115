// Nodes that are created on look-up: directories, texts and links of /proc and /sys. They hold ids of
// processes, not the processes, and every look-up creates them again. Threads: the kernel's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "linux/files/file.h"
#include "linux/fs/node.h"

namespace membrane::linux {

// The metadata of such a node, except its type. Its number follows from the names on the path, so it is
// stable.
struct MadeWith {
  uint64_t device = 0, number = 0;
  uint32_t permissions = 0;
  uint32_t uid = 0, gid = 0;
};

class MadeNode : public Node {
 public:
  MadeNode(uint32_t type, const MadeWith& with);
  [[nodiscard]] Attributes attributes() override { return attributes_; }

 protected:
  Attributes attributes_;
};

uint64_t made_number(uint64_t directory, std::string_view name);

// A text file. `text` is called when a reader begins at the start; `write`, if any, gets each write as it
// comes.
class MadeText final : public MadeNode {
 public:
  using Text = std::function<Try<std::string>()>;
  using Write = std::function<Done(std::string_view)>;
  MadeText(const MadeWith& with, Text text, Write write = nullptr);
  Try<std::shared_ptr<File>> open(Caller& caller, int flags) override;
  Done resize(uint64_t /*size*/) override { return write_ ? Done() : err(EACCES); }
  [[nodiscard]] Try<std::string> text() const { return text_(); }
  Done write_text(std::string_view text) const { return write_ ? write_(text) : err(EACCES); }

 private:
  const Text text_;
  const Write write_;
};

// A symbolic link; with `jump`, a magic one.
class MadeLink final : public MadeNode {
 public:
  using Target = std::function<Try<std::string>()>;
  using Jump = std::function<Try<std::shared_ptr<const Location>>()>;
  MadeLink(const MadeWith& with, Target target, Jump jump = nullptr);
  Try<std::string> target() override { return target_(); }
  Try<std::shared_ptr<const Location>> jump() override {
    return jump_ ? jump_() : Try<std::shared_ptr<const Location>>(nullptr);
  }

 private:
  const Target target_;
  const Jump jump_;
};

class MadeDirectory : public MadeNode {
 public:
  // What a name stands for: its type, permissions (0: the usual ones), owner (by default that of the
  // directory) and node. `above` is the directory.
  using Make = std::function<NodeRef(const MadeWith&, const NodeRef& above)>;
  struct Child {
    uint32_t type = S_IFREG, permissions = 0;
    Make make;
    std::optional<uint32_t> uid = {}, gid = {};
  };
  using Children = std::map<std::string, Child, std::less<>>;
  // A name with a stable position in the list, given by `key`; keys ascend.
  struct Listed {
    std::string name;
    uint8_t type = 0;
    int64_t key = 0;
  };

  // `above` is nullptr for a root; `children` for a directory with changing names only.
  MadeDirectory(const MadeWith& with, NodeRef above, std::shared_ptr<const Children> children = nullptr);
  Try<NodeRef> look_up(std::string_view name) override;
  Try<NodeRef> create(std::string_view, const NewNode&) override { return err(EACCES); }
  Done link(std::string_view, const NodeRef&) override { return err(EPERM); }
  Done unlink(std::string_view) override { return err(EPERM); }
  Done remove_directory(std::string_view) override { return err(EPERM); }
  Done rename(std::string_view, Node&, std::string_view, unsigned) override { return err(EPERM); }
  Done list(int64_t position, const std::function<bool(const DirectoryEntry&)>& add) override;
  [[nodiscard]] NodeRef parent() override { return above_ != nullptr ? above_ : shared_from_this(); }

 protected:
  // Names that come and go: those of processes, descriptors, threads. Their keys start at kFirstChangingKey.
  static constexpr int64_t kFirstChangingKey = 1000;
  virtual Try<Child> changing_child(std::string_view /*name*/) { return err(ENOENT); }
  virtual Try<std::vector<Listed>> changing_names() { return std::vector<Listed>(); }

 private:
  const NodeRef above_;
  const std::shared_ptr<const Children> children_;
};

// Rows of a table of children.
MadeDirectory::Child made_text(MadeText::Text text, MadeText::Write write = nullptr,
                               uint32_t permissions = 0);
MadeDirectory::Child made_link(MadeLink::Target target, MadeLink::Jump jump = nullptr);
MadeDirectory::Child made_directory(std::shared_ptr<const MadeDirectory::Children> children,
                                    uint32_t permissions = 0555);

// The number that the whole name spells, as for processes; -1 for others.
int number_of_name(std::string_view name);

}  // namespace membrane::linux
