#include "linux/kernel/capabilities.h"

namespace membrane::linux {

void Capabilities::change_user(const Credentials& before, const Credentials& after) {
  if (is_secure(SECURE_NO_SETUID_FIXUP)) return;
  const auto has_root = [](const Credentials& who) { return who.uid == 0 || who.euid == 0 || who.suid == 0; };
  if (has_root(before) && !has_root(after)) {
    if (!is_secure(SECURE_KEEP_CAPS)) permitted = effective = 0;
    ambient = 0;
  }
  if (before.euid == 0 && after.euid != 0) effective = 0;
  if (before.euid != 0 && after.euid == 0) effective = permitted;
}

void Capabilities::begin_program(const Credentials& after, bool changes_user) {
  secure_bits &= ~SECBIT_KEEP_CAPS;
  const bool is_root = (after.uid == 0 || after.euid == 0) && !is_secure(SECURE_NOROOT);
  if (changes_user || is_root) ambient = 0;
  permitted = is_root ? bounding | inheritable : ambient;
  effective = is_root && after.euid != 0 ? 0 : permitted;
}

}  // namespace membrane::linux
