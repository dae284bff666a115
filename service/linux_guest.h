// A guest that is a Linux sandbox: a turn is a process in one, and files persist. linux_guests.h makes them.
//
// Threads: as for Guest.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "computers/directories/directory_broker.h"
#include "computers/network/gateway.h"
#include "linux/image/layer.h"
#include "linux/image/store.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_computer.h"
#include "sandbox/receipts/receipt_content.h"
#include "service/guest.h"
#include "service/linux_files.h"

namespace membrane::service {

// Refuses grants and limits that a sandbox of this kind cannot enforce.
Answer<void> check_held(const policy::Policy& policy);

class LinuxGuest final : public Guest {
 public:
  LinuxGuest(linux::ComputerSource& source, GuestSpec spec, linux::StoredImage image);

  // One of the two comes first, before anybody has the guest: over an image, or from its saved state.
  Answer<void> begin(const std::string& image);
  Answer<void> begin_from(const std::vector<KeptContext>& contexts);

  [[nodiscard]] Kind kind() const override { return Kind::kLinux; }
  [[nodiscard]] bool works_by_itself() override;

  sandbox::Report exec(const GuestTurn& turn) override;
  void stop() override { is_stopped_ = true; }
  void end() override;
  void allow() override { is_stopped_ = false; }

  Answer<void> open_context(const std::string& id, const std::string& template_name) override;
  Answer<void> close_context(const std::string& id) override;

  Answer<void> set_environment(const Environment& environment) override;
  Answer<void> set_policy(const policy::Policy& policy, const host::Secrets& secrets) override;

  Answer<std::vector<KeptContext>> keep(std::optional<uint64_t> fork) override;

  Answer<std::string> read_file(const std::string& context, const std::string& path) override;
  Answer<void> write_file(const std::string& context, const std::string& path,
                          std::string_view bytes) override;
  Answer<void> set_mode(const std::string& path, uint32_t mode) override;
  Answer<void> make_link(const std::string& path, const std::string& target) override;
  Answer<std::string> make_patch(const std::string& directory, const KeptContext* since,
                                 const computers::PatchMemory& memory) override;
  Answer<std::vector<std::string>> apply_patch(const std::string& directory, std::string_view patch,
                                               const computers::PatchMemory& memory) override;

  Answer<std::vector<wasi::FileFact>> act_on_files(const std::string& context,
                                                   const wasi::FileRequest& request) override;
  Answer<void> make_home(const std::string& path) override;
  Answer<GuestUsage> usage() override;
  Answer<linux::FileFacts> stat_file(const std::string& path, bool follows_links) override;
  Answer<std::vector<sandbox::ReportFile>> files(const std::string& context) override;
  [[nodiscard]] std::shared_ptr<host::Flows> flows() const override { return flows_; }

 private:
  // Each exec has a receipt of its own, since several run at a time.
  Answer<void> seal(const GuestTurn& turn, sandbox::Invocation invocation, const std::string& platform,
                    const std::string& directory, const sandbox::Report& report);
  [[nodiscard]] std::shared_ptr<linux::LiveComputer> computer() const;
  // Another one may take its name.
  void hold_image(const std::string& path);
  [[nodiscard]] linux::HostFile image_file();
  [[nodiscard]] std::shared_ptr<computers::Gateway> gateway() const;
  [[nodiscard]] std::shared_ptr<computers::DirectoryBroker> directories() const;
  struct Made {
    std::shared_ptr<computers::Gateway> gateway;
    std::shared_ptr<computers::DirectoryBroker> directories;  // uses the gateway's budget
    std::shared_ptr<linux::LiveComputer> computer;
  };
  Answer<Made> build(linux::LiveSpec spec, const policy::Policy& policy);
  Answer<void> make(const linux::LiveSpec& spec, const policy::Policy& policy);
  // The image of the kept sandbox. A kernel process wrote its name, so it must be the name of an image. Runs
  // before anybody has the guest.
  Answer<void> lie_over_image_of(const linux::HostFile& kept);
  // Commands start with the settings of that image, even when its name is gone or belongs to another by now.
  void begin_as(const std::string& path, const std::string& digest);
  linux::LiveSpec spec_from(const linux::HostFile& kept, const linux::HostFile& image);
  Answer<void> make_from(const linux::HostFile& kept, const policy::Policy& policy);
  // Whether it can resume from there; checked before the running one ends.
  Answer<void> try_out(const linux::HostFile& kept);
  // A sandbox in which nothing runs, with the files of the saved one.
  Answer<std::unique_ptr<linux::LiveComputer>> files_of(const KeptContext& then, const linux::Layer* image);
  Answer<std::shared_ptr<const linux::HostFile>> kept_file();

  // Errors: kNotFound for a missing context.
  [[nodiscard]] Answer<void> check_context(const std::string& context) const;
  [[nodiscard]] LinuxFiles file_access() const { return LinuxFiles(computer()); }
  // The start directory of a turn; in a context of its own, the next turn starts there too. `home` is that of
  // the turn's own user.
  Answer<std::string> directory_for(const GuestTurn& turn, const std::string& home);
  // bash runs code, or sh if there is no bash.
  std::vector<std::string> words_of(linux::LiveComputer& computer, const GuestTurn& turn);
  std::string shell(linux::LiveComputer& computer);

  linux::ComputerSource& source_;
  std::shared_ptr<host::Flows> flows_ = std::make_shared<host::Flows>();
  std::atomic<bool> is_stopped_ = false;
  std::atomic<int> running_ = 0;  // turns
  mutable std::mutex mutex_;      // guards what follows
  GuestSpec spec_;
  linux::StoredImage stored_;
  std::string mark_;  // the image's mark (computers/description.h)
  std::vector<std::string> base_environment_;
  std::string base_directory_;
  std::string shell_;                            // "" until it is determined
  std::map<std::string, std::string> contexts_;  // except the first: their directories
  std::shared_ptr<computers::Gateway> gateway_;
  std::shared_ptr<computers::DirectoryBroker> directories_;  // uses the gateway's budget
  std::shared_ptr<linux::LiveComputer> computer_;
  linux::HostFile image_;  // the initial image, to find changes; none if it started from nothing
};

}  // namespace membrane::service
