/*
 * Parts of PyTorch's allocator class that need PyTorch's types and know nothing of cufence: the history of memory, and pools
 * whose memory is another allocator's. Included by allocator.cpp only.
 */
#pragma once

#include "torch.h"

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#ifndef CUFENCE_TORCH_VERSION
#error "CUFENCE_TORCH_VERSION is not set: see cmake/torch.cmake"
#endif

/* What PyTorch 2.11 lacks. Where a version has no such virtual function, the one here has no caller. */
#if CUFENCE_TORCH_VERSION >= 21200
#define OVERRIDE_2_12 override
#else
#define OVERRIDE_2_12
#endif
#if CUFENCE_TORCH_VERSION >= 21300
#define OVERRIDE_2_13 override
#else
#define OVERRIDE_2_13
#endif

namespace
{

namespace native = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using pool_id = c10::cuda::MempoolId_t;

/* ---- history ---- */

/* What torch.cuda.memory._record_memory_history() asks for, and who else follows allocations. Kept apart from the allocator's
 * own path: `is_wanted` is all that an allocation reads. */
class history
{
  public:
    std::atomic<bool> is_wanted{false};

    void record(bool enabled, native::CreateContextFn recorder, std::size_t most, native::RecordContext when, bool clears,
                const std::vector<std::string> &skip, const std::vector<cufence_mapping> &mappings)
    {
        std::lock_guard<std::mutex> guard(lock);
        is_recording = enabled;
        create = enabled ? recorder : nullptr;
        limit = std::max<std::size_t>(most, 1);
        contexts_when = enabled ? when : native::RecordContext::NEVER;
        skipped.clear();
        for (const auto &name : skip)
            skipped.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
        if (clears || !enabled)
            entries.clear();
        if (!enabled)
            contexts.clear();
        segments.clear();
        for (const auto &mapping : mappings)
            segments.emplace(mapping.buffer.mapping_start, seen_segment{segment_of(mapping), ++seen});
        is_wanted = is_recording || !trackers.empty();
    }

    bool is_enabled()
    {
        std::lock_guard<std::mutex> guard(lock);
        return is_recording;
    }

    void attach(native::AllocatorTraceTracker tracker)
    {
        std::lock_guard<std::mutex> guard(lock);
        trackers.push_back(std::move(tracker));
        is_wanted = true;
    }

    /* The context is gathered without a lock: that may need the GIL. */
    std::shared_ptr<c10::GatheredContext> context(native::RecordContext level)
    {
        native::CreateContextFn recorder = contexts_when.load() >= level ? create.load() : nullptr;
        return recorder ? recorder() : nullptr;
    }

    void add(native::TraceEntry::Action action, const cufence_torch_buffer &buffer,
             std::shared_ptr<c10::GatheredContext> context)
    {
        std::lock_guard<std::mutex> guard(lock);
        if (action == native::TraceEntry::ALLOC && context)
            contexts[buffer.address] = context;
        else if (action == native::TraceEntry::FREE_COMPLETED)
            contexts.erase(buffer.address);
        append(action, buffer, std::move(context), true);
    }

    /* A mapping that the history has not seen yet. */
    void add_segment(const cufence_torch_buffer &first, std::uint64_t start, std::uint64_t end,
                     std::shared_ptr<c10::GatheredContext> context)
    {
        std::lock_guard<std::mutex> guard(lock);
        cufence_torch_buffer whole = first;
        whole.address = start;
        whole.size = end - start;
        if (is_recording && segments.emplace(start, seen_segment{whole, ++seen}).second)
            append(native::TraceEntry::SEGMENT_ALLOC, whole, std::move(context), false);
    }

    std::uint64_t newest_segment()
    {
        std::lock_guard<std::mutex> guard(lock);
        return seen;
    }

    /* Segments up to newest_segment() when the list was made, that are not in it, have been given back, here or in the
     * background. */
    void keep_segments(const std::vector<cufence_mapping> &mappings, std::uint64_t newest,
                       std::shared_ptr<c10::GatheredContext> context)
    {
        std::lock_guard<std::mutex> guard(lock);
        std::unordered_set<std::uint64_t> mapped;
        for (const auto &mapping : mappings)
            mapped.insert(mapping.buffer.mapping_start);
        for (auto each = segments.begin(); each != segments.end();) {
            if (each->second.number > newest || mapped.count(each->first)) {
                ++each;
                continue;
            }
            append(native::TraceEntry::SEGMENT_FREE, each->second.whole, context, false);
            each = segments.erase(each);
        }
    }

    std::shared_ptr<c10::GatheredContext> of(std::uint64_t address)
    {
        std::lock_guard<std::mutex> guard(lock);
        auto found = contexts.find(address);
        return found == contexts.end() ? nullptr : found->second;
    }

    void fill(native::SnapshotInfo &info, bool has_traces)
    {
        auto to_unix = clock.makeConverter();
        std::lock_guard<std::mutex> guard(lock);
        for (const auto &entry : entries) {
            if (!has_traces)
                break;
            auto &trace = info.device_traces[static_cast<std::size_t>(entry.device_)];
            trace.push_back(entry);
            trace.back().time_.t_ = to_unix(entry.time_.approx_t_) / 1000; /* microseconds */
        }
    }

  private:
    /* Caller holds the lock. is_told: to trackers too. They learn of no segments: NCCL's would register what is unmapped in the
     * background before it hears of that. */
    void append(native::TraceEntry::Action action, const cufence_torch_buffer &buffer,
                std::shared_ptr<c10::GatheredContext> context, bool is_told)
    {
        if (skipped.count(action))
            return;
        bool has_context = contexts_when.load() >= native::RecordContext::ALLOC;
        native::TraceEntry entry(action, static_cast<DeviceIndex>(buffer.device), buffer.address, buffer.size,
                                 reinterpret_cast<cudaStream_t>(buffer.stream), {buffer.pool[0], buffer.pool[1]},
                                 c10::getApproximateTime(), has_context ? std::move(context) : nullptr);
        for (std::size_t i = 0; is_told && i < trackers.size(); i++)
            trackers[i](entry);
        if (!is_recording)
            return;
        entries.push_back(std::move(entry));
        if (entries.size() > limit)
            entries.pop_front();
    }

    struct seen_segment {
        cufence_torch_buffer whole;
        std::uint64_t number;
    };

    static cufence_torch_buffer segment_of(const cufence_mapping &mapping)
    {
        const cufence_buffer &buffer = mapping.buffer;
        return {buffer.mapping_start,
                buffer.mapping_end - buffer.mapping_start,
                buffer.stream,
                {mapping.pool[0], mapping.pool[1]},
                buffer.device};
    }

    c10::ApproximateClockToUnixTimeConverter clock; /* compares the clocks from here to a snapshot */
    std::mutex lock;                                /* guards what follows, apart from what is atomic */
    bool is_recording = false;
    std::atomic<native::CreateContextFn> create{nullptr};
    std::atomic<native::RecordContext> contexts_when{native::RecordContext::NEVER};
    std::size_t limit = 1;
    std::unordered_set<int> skipped;
    std::deque<native::TraceEntry> entries;
    std::vector<native::AllocatorTraceTracker> trackers;
    std::uint64_t seen = 0;                                                            /* numbers given to segments */
    std::unordered_map<std::uint64_t, seen_segment> segments;                          /* mappings that the history has seen */
    std::unordered_map<std::uint64_t, std::shared_ptr<c10::GatheredContext>> contexts; /* of live buffers */
};

/* ---- pools whose memory is another allocator's ---- */

using lender = std::shared_ptr<native::CUDAAllocator>;

/* torch.cuda.MemPool(allocator): its buffers come from there, unguarded. Freed ones are used again on their stream only, and go
 * back with the pool's end, because the other allocator may know no streams. */
class borrowed_pools
{
  public:
    std::atomic<std::size_t> count{0}; /* of pools and live buffers: 0: there is nothing to ask */

    void add(pool_id id, lender from)
    {
        std::lock_guard<std::mutex> guard(lock);
        count += pools.emplace(id, pool{std::move(from), {}}).second;
    }

    /* Of all pools: what is begun last, counts. */
    void begin(DeviceIndex device, pool_id id, const std::function<bool(cudaStream_t)> &filter)
    {
        std::lock_guard<std::mutex> guard(lock);
        begun.push_front({device, id, filter});
    }

    void end(DeviceIndex device, pool_id id)
    {
        std::lock_guard<std::mutex> guard(lock);
        begun.remove_if([&](const user &each) { return each.device == device && each.id == id; });
    }

    void *allocate(std::size_t size, DeviceIndex device, cudaStream_t stream)
    {
        std::unique_lock<std::mutex> guard(lock);
        auto inner = std::find_if(begun.begin(), begun.end(),
                                  [&](const user &each) { return each.device == device && each.filter(stream); });
        auto of = inner == begun.end() ? pools.end() : pools.find(inner->id);
        if (of == pools.end())
            return nullptr;
        const auto number = reinterpret_cast<std::uint64_t>(stream);
        loan taken{{0, size, number, {of->first.first, of->first.second}, device}, of->second.from, false};
        auto &idle = of->second.idle;
        auto same = std::find_if(idle.begin(), idle.end(), [&](const loan &each) {
            return each.buffer.size == size && each.buffer.stream == number && each.buffer.device == device &&
                   !each.is_recorded;
        });
        if (same != idle.end()) {
            taken = *same;
            idle.erase(same);
        } else {
            guard.unlock();
            taken.buffer.address = reinterpret_cast<std::uint64_t>(taken.from->raw_alloc_with_stream(size, stream));
            guard.lock();
        }
        void *pointer = reinterpret_cast<void *>(taken.buffer.address);
        count += pointer && live.emplace(pointer, std::move(taken)).second;
        return pointer;
    }

    /* Returns whether the buffer is borrowed. */
    bool release(void *pointer, cufence_torch_buffer *freed)
    {
        std::unique_lock<std::mutex> guard(lock);
        auto found = live.find(pointer);
        if (found == live.end())
            return false;
        loan given = std::move(found->second);
        live.erase(found);
        count--;
        *freed = given.buffer;
        auto of = pools.find({freed->pool[0], freed->pool[1]});
        const bool has_pool = of != pools.end();
        if (has_pool)
            of->second.idle.push_back(given);
        guard.unlock();
        if (!has_pool)
            return_all({given});
        return true;
    }

    bool find(void *pointer, cufence_torch_buffer *out)
    {
        std::lock_guard<std::mutex> guard(lock);
        auto found = live.find(pointer);
        if (found != live.end())
            *out = found->second.buffer;
        return found != live.end();
    }

    /* Another stream uses it: it is not used again before the pool's end. Returns whether the buffer is borrowed. */
    bool record(void *pointer)
    {
        std::lock_guard<std::mutex> guard(lock);
        auto found = live.find(pointer);
        if (found != live.end())
            found->second.is_recorded = true;
        return found != live.end();
    }

    void give_back(pool_id id, bool is_end)
    {
        std::unique_lock<std::mutex> guard(lock);
        auto found = pools.find(id);
        if (found == pools.end())
            return;
        auto idle = std::move(found->second.idle);
        found->second.idle.clear();
        count -= is_end;
        if (is_end)
            pools.erase(found);
        guard.unlock();
        return_all(idle);
    }

  private:
    struct loan {
        cufence_torch_buffer buffer;
        lender from;
        bool is_recorded;
    };
    struct pool {
        lender from;
        std::vector<loan> idle;
    };
    struct user {
        DeviceIndex device;
        pool_id id;
        std::function<bool(cudaStream_t)> filter;
    };

    /* The other allocator may not wait for who uses it. */
    static void return_all(const std::vector<loan> &loans)
    {
        if (!loans.empty())
            c10::cuda::device_synchronize();
        for (const auto &loan : loans)
            loan.from->raw_delete(reinterpret_cast<void *>(loan.buffer.address));
    }

    std::mutex lock;
    std::map<pool_id, pool> pools;
    std::forward_list<user> begun;
    std::unordered_map<void *, loan> live;
};

} // namespace
