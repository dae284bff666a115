#include "service/linux_guests.h"

#include <utility>

#include "computers/settings.h"
#include "service/client_policy.h"
#include "service/environments.h"
#include "service/linux_guest.h"

namespace membrane::service {
namespace {

constexpr std::string_view kTemplate = "linux", kTemplateOfImage = "linux:";

class StoredImages final : public ImageCatalog {
 public:
  Result<linux::StoredImage> find(const std::string& name) override {
    if (name.contains('/'))
      return fail(ErrorCode::kInvalidArgument, "linux:" + name + " names no image",
                  "GET /v1/templates lists them.");
    auto found = linux::find_image(name.empty() ? std::string(computers::kUsualImage) : name);
    if (!found && found.error().code == ErrorCode::kNotFound && !list().empty())
      found.error().hint = "The template of an image is linux:NAME. GET /v1/templates lists them.";
    return found;
  }
  std::vector<linux::StoredImage> list() override {
    auto images = linux::list_images();
    return images ? *std::move(images) : std::vector<linux::StoredImage>();
  }
};

class GuestsWithLinux final : public Guests {
 public:
  GuestsWithLinux(std::unique_ptr<Guests> others, std::unique_ptr<linux::ComputerSource> source,
                  std::unique_ptr<ImageCatalog> images, std::string why_none)
      : others_(std::move(others)),
        source_(std::move(source)),
        images_(std::move(images)),
        why_none_(std::move(why_none)) {}

  Answer<std::unique_ptr<Guest>> create(const GuestSpec& spec) override {
    if (kind_of_template(spec.template_name) != Kind::kLinux) return others_->create(spec);
    if (const auto checked = check(spec); !checked) return std::unexpected(checked.error());
    const auto image = images_->find(image_of(spec));
    if (!image) {
      ApiError error = api_error(image.error());
      if (error.code == ApiCode::kNotFound) error.code = ApiCode::kInvalidValue;
      return std::unexpected(std::move(error));
    }
    auto guest = std::make_unique<LinuxGuest>(*source_, spec, *image);
    if (const auto begun = guest->begin(image->path); !begun) return std::unexpected(begun.error());
    return guest;
  }
  Answer<std::unique_ptr<Guest>> restore(const GuestSpec& spec,
                                         const std::vector<KeptContext>& contexts) override {
    if (kind_of_template(spec.template_name) != Kind::kLinux) return others_->restore(spec, contexts);
    if (const auto checked = check(spec); !checked) return std::unexpected(checked.error());
    const auto image = images_->find(image_of(spec));  // for the initial settings of commands
    auto guest = std::make_unique<LinuxGuest>(*source_, spec, image ? *image : linux::StoredImage());
    if (const auto begun = guest->begin_from(contexts); !begun) return std::unexpected(begun.error());
    return guest;
  }
  [[nodiscard]] std::vector<TemplateInfo> templates() const override {
    std::vector<TemplateInfo> all = others_->templates();
    if (source_ == nullptr) return all;
    for (const linux::StoredImage& image : images_->list()) {
      if (image.name == computers::kUsualImage)
        all.push_back(
            {std::string(kTemplate), "", "Linux programs, over the image " + image.name, Kind::kLinux});
      all.push_back({std::string(kTemplateOfImage) + image.name, "",
                     "Linux programs, over the image " + image.name, Kind::kLinux});
    }
    return all;
  }
  [[nodiscard]] policy::Limits usual_limits(const std::string& template_name) const override {
    if (kind_of_template(template_name) != Kind::kLinux) return others_->usual_limits(template_name);
    policy::Limits limits = computers::usual_limits();
    bound_limits(limits);
    return limits;
  }

 private:
  static std::string image_of(const GuestSpec& spec) {
    return spec.template_name.size() > kTemplateOfImage.size()
               ? spec.template_name.substr(kTemplateOfImage.size())
               : "";
  }
  [[nodiscard]] Answer<void> check(const GuestSpec& spec) const {
    if (source_ == nullptr)
      return refuse(ApiCode::kUnsupported, "this service has no Linux sandboxes: " + why_none_,
                    "membrane doctor says more; templates of the other kind are there.");
    if (const Status valid = policy::validate(spec.policy); !valid)
      return std::unexpected(api_error(valid.error()));
    if (const auto held = check_held(spec.policy); !held) return held;
    return check_environment(spec.environment);
  }

  const std::unique_ptr<Guests> others_;
  const std::unique_ptr<linux::ComputerSource> source_;
  const std::unique_ptr<ImageCatalog> images_;
  const std::string why_none_;
};

}  // namespace

std::string_view name_of(Kind kind) { return kind == Kind::kLinux ? "linux" : "wasm"; }

Kind kind_of_template(std::string_view template_name) {
  return template_name == kTemplate || template_name.starts_with(kTemplateOfImage) ? Kind::kLinux
                                                                                   : Kind::kWasm;
}

std::unique_ptr<ImageCatalog> stored_images() { return std::make_unique<StoredImages>(); }

std::unique_ptr<Guests> with_linux_guests(std::unique_ptr<Guests> others,
                                          std::unique_ptr<linux::ComputerSource> source,
                                          std::unique_ptr<ImageCatalog> images, const std::string& why_none) {
  return std::make_unique<GuestsWithLinux>(std::move(others), std::move(source), std::move(images), why_none);
}

}  // namespace membrane::service
