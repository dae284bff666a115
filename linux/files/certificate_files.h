// The files in which images have the certificates that their programs trust. Where the sandbox's network has a certificate of its own
// (network.h), whoever opens one of them to read finds it after the others; the file itself stays as it is, so that neither the image
// nor what is kept of the sandbox, compared or written has it.
//
// Threads: the kernel's one.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "linux/fs/paths.h"

namespace membrane::linux {

// By distribution; the usual ones first.
inline constexpr std::array<std::string_view, 7> kCertificateFiles = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Alpine
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora
    "/etc/pki/tls/certs/ca-bundle.crt",                   // its older ones
    "/etc/ca-certificates/extracted/tls-ca-bundle.pem",   // Arch
    "/var/lib/ca-certificates/ca-bundle.pem",             // SUSE
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

// Whether the file, as it was reached, is one of them, in whatever root, or one that a package for Python or Perl brings.
bool is_certificate_file(const Location& location);
// Its bytes and the certificate after them, as a file without a name in the tree of a directory, which is charged as any other and seen
// as the file itself. Errors: ENOSPC; EFBIG for what is too long to be a list of certificates.
Try<NodeRef> with_certificate(const NodeRef& file, Node& directory, std::string_view certificate);
// The same as text. Errors: EFBIG.
Try<std::string> text_with_certificate(Node& file, std::string_view certificate);

}  // namespace membrane::linux
