// A pool of threads that run one call at a time, a barrier between them, and the memory that calls work with.
//
// Threads of the pool must not throw: whatever they need is allocated before they start.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <immintrin.h>
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

// Looks a while, then sleeps: whoever shares the processors with others must not burn them waiting.
void await_change(const std::atomic<uint32_t>& value, uint32_t old, int spins) {
    for (; spins > 0; --spins) {
        if (value.load(std::memory_order_acquire) != old) return;
        _mm_pause();
    }
    value.wait(old, std::memory_order_acquire);
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
            while (places_[other].times.load(std::memory_order_acquire) == times - 1)
                await_change(places_[other].times, times - 1, 2000);
    }

  private:
    struct alignas(64) Place {  // a line of the cache
        std::atomic<uint32_t> times{0u - 1000};  // wraps around early, so that tests come by it
    };
    std::vector<Place> places_;
};

Barrier barrier;

class Pool {
  public:
    using Work = void (*)(void* argument, int thread, int threads);

    ~Pool() { stop(); }

    // Runs work in so many threads, or in fewer where the system has no more: results do not depend on that.
    void run(int threads, Work work, void* argument) {
        resize(threads);
        work_ = work;
        argument_ = argument;
        pending_.store(threads_ - 1, std::memory_order_relaxed);
        ticket_.fetch_add(1, std::memory_order_release);
        ticket_.notify_all();
        work(argument, 0, threads_);
        for (uint32_t left = pending_.load(std::memory_order_acquire); left != 0; left = pending_.load())
            await_change(pending_, left, 2000);
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
