#include "mdc/base/in_order.h"

#include <algorithm>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel {
namespace {

// So many parts for each thread may have begun and not be taken yet.
constexpr std::size_t kPartsAhead = 4;

class Sharing {
 public:
  explicit Sharing(const InOrderWork& order)
      : order_(order), ahead_(kPartsAhead * order.threads), done_(order.parts, false) {}

  void Work(std::size_t worker) {
    std::size_t part = 0;
    while (Next(part)) {
      order_.work(worker, part);
      Done(part);
    }
  }

 private:
  bool Next(std::size_t& part) {
    MutexLock lock(mutex_);
    if (next_ == order_.parts) return false;
    part = next_++;
    while (part >= taken_ + ahead_) moved_.Wait(mutex_);
    return true;
  }

  // Takes what can be taken now, unless another thread does.
  void Done(std::size_t part) {
    MutexLock lock(mutex_);
    done_[part] = true;
    if (taking_) return;
    taking_ = true;
    while (taken_ < order_.parts && done_[taken_]) {
      const std::size_t taken = taken_;
      mutex_.Unlock();
      order_.take(taken);
      mutex_.Lock();
      ++taken_;
      moved_.NotifyAll();
    }
    taking_ = false;
  }

  const InOrderWork& order_;
  const std::size_t ahead_;
  Mutex mutex_;
  CondVar moved_;
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;   // to begin
  std::size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // so many
  bool taking_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<bool> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void RunInOrder(const InOrderWork& order) {
  Sharing sharing(order);
  std::vector<Thread> others;
  const std::size_t threads = std::min(order.threads, order.parts);
  for (std::size_t worker = 1; worker < threads; ++worker) {
    others.emplace_back([&sharing, worker] { sharing.Work(worker); });
  }
  sharing.Work(0);
  for (Thread& other : others) other.Join();
}

}  // namespace reel
