// Interrupts a host call that cannot check its deadline itself: a thread of the process waits, and calls back when
// the call's time is up or the owner stops its run.
//
//   const Watchdog::Watch watch(deadline, [&] { api.interrupt(connection); });
//
// Threads: any number of watches at a time. The callback runs in the watchdog's thread, once, and never after the
// watch's destructor has returned; it must not block, throw, or create or destroy a watch.
#pragma once

#include <functional>

#include "host/deadline.h"

namespace membrane::host {

class Watchdog {
 public:
  class Watch {
   public:
    // `deadline` is copied; the budget and flag it refers to must outlive the watch. When no thread can be started,
    // there is no callback: a second check must look at the clock.
    Watch(const Deadline& deadline, std::function<void()> on_end);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class Watchdog;
    Deadline deadline_;
    std::function<void()> on_end_;
    bool called_ = false;
  };

 private:
  class Thread;
};

}  // namespace membrane::host
