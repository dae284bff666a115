// The files in which images keep the certificates that their programs trust. Where the sandbox's network has
// a certificate of its own (network.h), a program that opens one of these files for reading finds that
// certificate after the others. The file itself does not change, so neither the image nor a snapshot,
// comparison or write of the sandbox contains it.
//
// Threads: the kernel's thread.
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

// Whether the file is one of these, under whatever root it was reached, or one that a Python or Perl package
// brings.
bool is_certificate_file(const Location& location);
// The file's bytes followed by the certificate, as a nameless file in the tree of a directory, charged like
// any other and shown as the original file. Errors: ENOSPC; EFBIG for a file that is too long to be a list of
// certificates.
Try<NodeRef> with_certificate(const NodeRef& file, Node& directory, std::string_view certificate);
// The same as text. Errors: EFBIG.
Try<std::string> text_with_certificate(Node& file, std::string_view certificate);

}  // namespace membrane::linux
