// The contents of a KnownPlaces (snapshot.h), shared by freezing and thawing.
//
// Threads: any, one at a time: the mutex is held while the rest is used.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/code/translate.h"
#include "engine/execution/frame_states.h"
#include "engine/freeze/snapshot.h"

namespace membrane::engine {

struct KnownPlaces::Parts {
  static constexpr size_t kMostPlaces = 1 << 15;  // beyond, all are forgotten

  explicit Parts(std::shared_ptr<CompiledModule> m) : module(std::move(m)) {}

  std::mutex mutex;  // guards all of it
  std::shared_ptr<CompiledModule> module;
  std::optional<FramePlaces> frame_places;
  KnownFrames frames;
  std::map<Remade<Recorder>::Key, Recorder> headers;

  FramePlaces& places() {
    if (!frame_places || frame_places->size() > kMostPlaces) frame_places.emplace(module->module());
    return *frame_places;
  }
};

}  // namespace membrane::engine
