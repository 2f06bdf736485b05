// A pool of threads that run one call at a time, a barrier between them, and the memory that calls work with.
//
// Threads of the pool must not throw: whatever they need is allocated before they start.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace {

std::atomic<int64_t> fails_in{0};  // for tests: which allocation from now on is to fail; 0 for none

void count_allocation() {
    if (fails_in.load(std::memory_order_relaxed) > 0 && fails_in.fetch_sub(1) == 1) throw std::bad_alloc();
}

// Numbers are left as they come, not set to 0.
template <class T>
struct Allocator {
    using value_type = T;
    static constexpr std::align_val_t LINE{64};

    Allocator() = default;
    template <class U>
    Allocator(const Allocator<U>&) {}
    T* allocate(size_t count) {
        count_allocation();
        return static_cast<T*>(::operator new(count * sizeof(T), LINE));
    }
    void deallocate(T* place, size_t) { ::operator delete(place, LINE); }
    template <class U>
    void construct(U* place) {
        ::new (place) U;
    }
    template <class U, class... Values>
    void construct(U* place, Values&&... values) {
        ::new (place) U(static_cast<Values&&>(values)...);
    }
    bool operator==(const Allocator&) const { return true; }
};

template <class T>
using Vector = std::vector<T, Allocator<T>>;

// Makes room for at least so many numbers; what was there is lost if there was less. It never shrinks.
template <class T>
T* fit(Vector<T>& buffer, int64_t count) {
    if (static_cast<int64_t>(buffer.size()) < count) {
        buffer = Vector<T>();
        buffer.resize(count);
    }
    return buffer.data();
}

inline void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");  // `yield` does nothing on most
#endif
}

using Clock = std::chrono::steady_clock;

// Looks a while, then sleeps: whoever shares the processors with others must not burn them waiting. Returns how long it
// slept.
Clock::duration await_change(const std::atomic<uint32_t>& value, uint32_t old, int spins) {
    for (; spins > 0; --spins) {
        if (value.load(std::memory_order_acquire) != old) return {};
        pause_briefly();
    }
    const Clock::time_point began = Clock::now();
    value.wait(old, std::memory_order_acquire);
    return Clock::now() - began;
}

// Threads wait for each other. Each says in a place of its own how often it has come here, and looks at the others'.
class Barrier {
  public:
    // While nobody waits.
    void resize(int threads) {
        count_allocation();
        places_ = std::vector<Place>(threads);
    }

    void wait(int thread, int threads) {
        if (threads == 1) return;
        std::atomic<uint32_t>& mine = places_[thread].times;
        const uint32_t times = mine.load(std::memory_order_relaxed) + 1;
        mine.store(times);  // in order with the look at who sleeps
        mine.notify_all();
        // Nobody is more than one time ahead of or behind another.
        for (int other = 0; other < threads; ++other)
            while (places_[other].times.load(std::memory_order_acquire) == times - 1) {
                const Clock::duration slept = await_change(places_[other].times, times - 1, 2000);
                if (thread == 0) slept_ += slept;
            }
    }

    // How long the first thread has slept, since it was asked last; while nobody waits.
    Clock::duration take_slept() { return std::exchange(slept_, {}); }

  private:
    struct alignas(64) Place {  // a line of the cache
        std::atomic<uint32_t> times{0u - 1000};  // wraps around early, so that tests come by it
    };
    std::vector<Place> places_;
    Clock::duration slept_{};
};

Barrier barrier;

// Whether several threads pay: where other programs want the processors, each barrier may last until one of them is
// stopped, milliseconds. Then one thread goes on alone, and tries again from time to time.
class Sharing {
  public:
    bool pays(Clock::time_point now) const { return now >= alone_until_; }

    // Notes a call of several threads, and how much of it the first one slept.
    void observe(Clock::time_point began, Clock::time_point ended, Clock::duration slept, int threads) {
        called_ += ended - began;
        slept_ += slept;
        if (called_ < WINDOW) return;
        const bool paid = (called_ - slept_) * threads > called_ * 5 / 4;
        alone_for_ = paid ? SHORTEST : std::min(2 * alone_for_, LONGEST);
        if (!paid) alone_until_ = ended + alone_for_;
        called_ = slept_ = {};
    }

  private:
    static constexpr Clock::duration WINDOW = std::chrono::milliseconds(4), SHORTEST = std::chrono::milliseconds(25),
                                     LONGEST = std::chrono::milliseconds(800);
    Clock::time_point alone_until_{};
    Clock::duration alone_for_ = SHORTEST, called_{}, slept_{};
};

class Pool {
  public:
    using Work = void (*)(void* argument, int thread, int threads);

    ~Pool() { stop(); }

    // Runs work in so many threads, or in fewer where the system has no more: results do not depend on that.
    void run(int threads, Work work, void* argument) {
        resize(threads);
        const Clock::time_point began = Clock::now();
        if (threads_ == 1 || !sharing_.pays(began)) return work(argument, 0, 1);
        work_ = work;
        argument_ = argument;
        pending_.store(threads_ - 1, std::memory_order_relaxed);
        ticket_.fetch_add(1, std::memory_order_release);
        ticket_.notify_all();
        work(argument, 0, threads_);
        Clock::duration slept = barrier.take_slept();
        for (uint32_t left = pending_.load(std::memory_order_acquire); left != 0; left = pending_.load())
            slept += await_change(pending_, left, 2000);
        sharing_.observe(began, Clock::now(), slept, threads_);
    }

    // Ends all threads but the caller's.
    void stop() {
        if (process_ != getpid()) {
            // A fork leaves the threads of its parent behind; their handles can only be forgotten.
            new (&workers_) std::vector<std::thread>;
            process_ = getpid();
        }
        stop_ = true;
        ticket_.fetch_add(1, std::memory_order_release);
        ticket_.notify_all();
        for (auto& worker : workers_) worker.join();
        workers_.clear();
        stop_ = false;
        wanted_ = threads_ = 1;
    }

  private:

    void resize(int threads) {
        if (wanted_ == threads && process_ == getpid()) return;
        stop();
        barrier.resize(threads);
        count_allocation();
        workers_.reserve(threads - 1);
        const uint32_t start = ticket_.load();
        try {
            for (int thread = 1; thread < threads; ++thread) {
                count_allocation();
                workers_.emplace_back([this, thread, start] { loop(thread, start); });
            }
        } catch (const std::exception&) {
            // No memory for another stack, or too many threads: those that run are enough.
        }
        threads_ = static_cast<int>(workers_.size()) + 1;
        wanted_ = threads;
    }

    void loop(int thread, uint32_t seen) {
        for (;;) {
            // The next step usually comes within a fraction of a millisecond.
            await_change(ticket_, seen, 60000);
            seen = ticket_.load(std::memory_order_acquire);
            if (stop_) return;
            work_(argument_, thread, threads_);
            pending_.fetch_sub(1, std::memory_order_release);
            pending_.notify_all();
        }
    }

    std::vector<std::thread> workers_;
    std::atomic<uint32_t> ticket_{0}, pending_{0};
    Sharing sharing_;
    Work work_ = nullptr;
    void* argument_ = nullptr;
    int wanted_ = 1, threads_ = 1;
    std::atomic<bool> stop_{false};
    pid_t process_ = getpid();
};

Pool pool;
std::mutex turn;  // threads and memory serve one call at a time

// Calls f(thread, threads) in each of several threads.
template <class F>
void in_parallel(int threads, F f) {
    pool.run(threads, [](void* argument, int thread, int count) { (*static_cast<F*>(argument))(thread, count); }, &f);
}

}  // namespace
