// Sessions in processes of their own, for an embedder (SessionOptions::isolated): workers of one zygote, the program
// membrane-worker, which the first session starts.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sandbox/session/session.h"
#include "sandbox/session/template.h"

namespace membrane::face {

// The path of membrane-worker: $MEMBRANE_WORKER if it is set; else beside the library, or the program that the library is a part of;
// else the place of an installation, relative to the library (../libexec/membrane). Errors: kNotFound, with the places that were
// searched.
Result<std::string> find_worker_program();

// Starts from `kept` if it is given, which is borrowed, else from the template. `accepted_walls` are names of walls that may be
// missing. Errors: as sandbox::Session::create() and restore(); those of find_worker_program() and Zygote::start_program();
// kUnsupported for a wall that this machine cannot raise.
Result<std::unique_ptr<sandbox::Session>> isolated_session(const sandbox::Template& of,
                                                           sandbox::RunOptions options,
                                                           const std::vector<std::string>& accepted_walls,
                                                           std::optional<std::span<const uint8_t>> kept = {});

}  // namespace membrane::face
