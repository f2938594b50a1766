// Several environments at once, each on a separate thread, with one pool: they map files that
// another thread cuts short and makes long again, hand out buffers, read them here and on the pool,
// close, detach, drop, and end with work under way. ThreadSanitizer watches; see run.mjs.
//
//     threads <folder for files> <seconds> <seed>
//
// Ends with 1 when something is left, or when too little happened for the run to prove
// anything.

#include <dirent.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include "node_api.h"
#include "worker.h"

namespace {

constexpr size_t kEnvironments = 3;
constexpr size_t kPoolThreads = 3;

using Clock = std::chrono::steady_clock;

bool IsMapped(const std::string& folder) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(folder + "/") != std::string::npos) return true;
  }
  return false;
}

size_t OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  size_t count = 0;
  while (readdir(folder) != nullptr) count++;
  closedir(folder);
  return count;
}

// Counts of events.
struct Seen {
  size_t environments = 0;
  size_t rounds = 0;
  uint32_t truncations = 0;
  Calls calls;
};

// All environments begin each round together, and do one of two things. So nothing but the addon's
// own locks orders what they do: whoever is first, ThreadSanitizer sees what should have been
// locked.
class Rounds {
 public:
  Rounds(uint32_t seed, Clock::time_point end) : random_(seed), end_(end) {}

  using Actions = std::array<size_t, 2>;

  // Waits for the others. False when there are no more rounds.
  bool Begin(Actions* actions) {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (++arrived_ == kEnvironments) {
      arrived_ = 0;
      round_++;
      for (size_t& action : actions_) action = random_() % Worker::kActions;
      is_over_ = Clock::now() > end_;
      begun_.notify_all();
    } else {
      begun_.wait(lock, [this, round] { return round_ != round; });
    }
    *actions = actions_;
    return !is_over_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable begun_;
  Random random_;
  const Clock::time_point end_;
  size_t arrived_ = 0;
  uint64_t round_ = 0;
  Actions actions_ = {};
  bool is_over_ = false;
};

Seen Run(const std::string& folder, double seconds, uint32_t seed) {
  const auto end = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  const Files files(folder);
  Pool pool(kPoolThreads);
  Rounds rounds(seed, end);
  std::atomic<uint32_t> next_seed{seed};
  std::array<Seen, kEnvironments> seen;
  std::vector<std::thread> threads;
  for (Seen& mine : seen) {
    threads.emplace_back([&files, &pool, &rounds, &next_seed, &mine] {
      std::unique_ptr<Worker> worker;
      Random random(next_seed++);
      for (Rounds::Actions actions; rounds.Begin(&actions);) {
        if (worker == nullptr || random() % 200 == 0) {
          worker.reset();
          worker = std::make_unique<Worker>(&pool, files, next_seed++, &mine.calls);
          mine.environments++;
        }
        worker->Do(Worker::ActionAt(actions[random() % actions.size()]));
        mine.rounds++;
      }
      mine.truncations = worker->Truncations();
    });
  }
  Random random(seed);
  while (Clock::now() < end) {
    const int file = files.descriptor(random() % (Files::kCount - 1));
    if (ftruncate(file, static_cast<off_t>(random() % kLength)) != 0) abort();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    if (ftruncate(file, kLength) != 0) abort();
  }
  for (std::thread& thread : threads) thread.join();

  Seen all;
  for (const Seen& mine : seen) {
    all.environments += mine.environments;
    all.rounds = mine.rounds;
    all.truncations = std::max(all.truncations, mine.truncations);
    for (const auto& [name, count] : mine.calls) all.calls[name] += count;
  }
  return all;
}

// Says what is wrong; false when nothing is.
bool Complain(const std::string& folder, size_t descriptors, const Seen& seen) {
  bool complained = false;
  const auto complain = [&complained](const std::string& what) {
    complained = true;
    std::printf("threads: %s\n", what.c_str());
  };
  if (OpenDescriptors() != descriptors) complain("descriptors are left open");
  if (IsMapped(folder)) complain("files are left mapped");
  if (seen.truncations == 0) complain("no page was gone");
  for (const auto& [name, count] : seen.calls) {
    if (count == 0) complain(name + " was never called");
  }
  return complained;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const std::string folder = arguments[1];
  const size_t descriptors = OpenDescriptors();
  const Seen seen = Run(folder, atof(arguments[2]), static_cast<uint32_t>(atoll(arguments[3])));
  size_t calls = 0;
  for (const auto& call : seen.calls) calls += call.second;
  std::printf(
      "threads: %zu rounds, %zu environments, %zu calls of %zu functions, %u mappings cut short\n",
      seen.rounds, seen.environments, calls, seen.calls.size(), seen.truncations);
  return Complain(folder, descriptors, seen) ? 1 : 0;
}
