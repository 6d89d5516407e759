/*
 * Parts of PyTorch's allocator class that need PyTorch's types and know nothing of cufence: the history of memory, and pools
 * whose memory is another allocator's. Included by allocator.cpp only.
 */
#ifndef CUFENCE_TORCH_ALLOCATOR_PARTS_H
#define CUFENCE_TORCH_ALLOCATOR_PARTS_H

#include "torch.h"

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
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
#error "CUFENCE_TORCH_VERSION is not set: see _compile.py"
#endif

namespace
{

namespace native = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using pool_id = c10::cuda::MempoolId_t;
using annotation = decltype(native::SnapshotInfo::external_annotations)::value_type;

/* ---- history ---- */

/* What torch.cuda.memory._record_memory_history() asks for, and who else follows allocations. Kept apart from the allocator's
 * own path: `is_wanted` is all that an allocation reads. */
class history
{
  public:
    std::atomic<bool> is_wanted{false};

    void record(bool enabled, native::CreateContextFn recorder, std::size_t most, native::RecordContext when, bool clears,
                const std::vector<std::string> &skip)
    {
        std::lock_guard<std::mutex> guard(lock);
        is_recording = enabled;
        create = enabled ? recorder : nullptr;
        limit = std::max<std::size_t>(most, 1);
        contexts_when = enabled ? when : native::RecordContext::NEVER;
        skipped.clear();
#if CUFENCE_TORCH_VERSION >= 21100
        for (const auto &name : skip)
            skipped.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
#else
        (void)skip;
#endif
        if (clears || !enabled)
            entries.clear();
        if (!enabled)
            contexts.clear();
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
        if (skipped.count(action))
            return;
        bool has_context = contexts_when.load() >= native::RecordContext::ALLOC;
        native::TraceEntry entry(action, static_cast<DeviceIndex>(buffer.device), buffer.address, buffer.size,
                                 reinterpret_cast<cudaStream_t>(buffer.stream), {buffer.pool[0], buffer.pool[1]},
                                 c10::getApproximateTime(), has_context ? std::move(context) : nullptr, compiling());
        for (const auto &tracker : trackers)
            tracker(entry);
        if (!is_recording)
            return;
        entries.push_back(std::move(entry));
        if (entries.size() > limit)
            entries.pop_front();
    }

    void annotate(const std::vector<std::pair<std::string, std::string>> &pairs, DeviceIndex device)
    {
        annotation entry(device, c10::getApproximateTime());
        for (const auto &pair : pairs)
            entry.recordUserMetadata(pair.first, pair.second);
        std::lock_guard<std::mutex> guard(lock);
        if (is_recording)
            annotations.push_back(std::move(entry));
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
        info.external_annotations = annotations;
        for (auto &entry : info.external_annotations)
            entry.time_.t_ = to_unix(entry.time_.approx_t_) / 1000;
        for (const auto &entry : entries) {
            if (!has_traces)
                break;
            auto &trace = info.device_traces[static_cast<std::size_t>(entry.device_)];
            trace.push_back(entry);
            trace.back().time_.t_ = to_unix(entry.time_.approx_t_) / 1000; /* microseconds */
        }
    }

    static std::vector<std::string> &compile_contexts()
    {
        static thread_local std::vector<std::string> names;
        return names;
    }

  private:
    static std::string compiling()
    {
        return compile_contexts().empty() ? "" : compile_contexts().back();
    }

    c10::ApproximateClockToUnixTimeConverter clock; /* compares the clocks from here to a snapshot */
    std::mutex lock;                                /* guards what follows, apart from what is atomic */
    bool is_recording = false;
    std::atomic<native::CreateContextFn> create{nullptr};
    std::atomic<native::RecordContext> contexts_when{native::RecordContext::NEVER};
    std::size_t limit = 1;
    std::unordered_set<int> skipped;
    std::deque<native::TraceEntry> entries;
    std::vector<annotation> annotations;
    std::vector<native::AllocatorTraceTracker> trackers;
    std::unordered_map<std::uint64_t, std::shared_ptr<c10::GatheredContext>> contexts; /* of live buffers */
};

/* ---- pools whose memory is another allocator's ---- */

#if CUFENCE_TORCH_VERSION >= 21100
using lender = std::shared_ptr<native::CUDAAllocator>;
#else
using lender = native::CUDAAllocator *;
#endif

/* torch.cuda.MemPool(allocator): its buffers come from there, unguarded. Freed ones are used again on their stream only, and go
 * back with the pool's end, because the other allocator may know no streams. */
class borrowed_pools
{
  public:
    std::atomic<std::size_t> count{0}; /* of pools and live buffers: 0: there is nothing to ask */

    void add(pool_id id, lender from)
    {
        std::lock_guard<std::mutex> guard(lock);
        count += pools.emplace(id, pool{std::move(from), {}, {}}).second;
    }

    void begin(pool_id id, const std::function<bool(cudaStream_t)> &filter)
    {
        std::lock_guard<std::mutex> guard(lock);
        auto found = pools.find(id);
        if (found != pools.end())
            found->second.filter = filter;
    }

    void *allocate(std::size_t size, DeviceIndex device, cudaStream_t stream)
    {
        std::unique_lock<std::mutex> guard(lock);
        auto found = std::find_if(pools.begin(), pools.end(),
                                  [&](const auto &each) { return each.second.filter && each.second.filter(stream); });
        if (found == pools.end())
            return nullptr;
        const auto id = found->first;
        auto &idle = found->second.idle[{size, stream}];
        void *pointer = idle.empty() ? nullptr : idle.back();
        if (pointer)
            idle.pop_back();
        lender from = found->second.from;
        guard.unlock();
        if (!pointer)
            pointer = from->raw_alloc_with_stream(size, stream);
        guard.lock();
        count += pointer != nullptr;
        if (pointer)
            live[pointer] = {reinterpret_cast<std::uint64_t>(pointer),
                             size,
                             reinterpret_cast<std::uint64_t>(stream),
                             {id.first, id.second},
                             device};
        return pointer;
    }

    bool release(void *pointer, cufence_torch_buffer *freed)
    {
        std::lock_guard<std::mutex> guard(lock);
        auto found = live.find(pointer);
        if (found == live.end())
            return false;
        *freed = found->second;
        live.erase(found);
        count--;
        auto of = pools.find({freed->pool[0], freed->pool[1]});
        if (of != pools.end())
            of->second.idle[{freed->size, reinterpret_cast<cudaStream_t>(freed->stream)}].push_back(pointer);
        return true;
    }

    bool find(void *pointer, cufence_torch_buffer *out)
    {
        std::lock_guard<std::mutex> guard(lock);
        auto found = live.find(pointer);
        if (found != live.end())
            *out = found->second;
        return found != live.end();
    }

    /* Gives back what is idle. The pool's streams are waited for. */
    void give_back(pool_id id, bool is_end)
    {
        std::unique_lock<std::mutex> guard(lock);
        auto found = pools.find(id);
        if (found == pools.end())
            return;
        auto idle = std::move(found->second.idle);
        lender from = found->second.from;
        found->second.idle.clear();
        if (is_end) {
            pools.erase(found);
            count--;
        }
        guard.unlock();
        if (!idle.empty())
            c10::cuda::device_synchronize();
        for (const auto &each : idle) {
            for (void *pointer : each.second)
                from->raw_delete(pointer);
        }
    }

  private:
    struct pool {
        lender from;
        std::function<bool(cudaStream_t)> filter; /* while it is begun */
        std::map<std::pair<std::size_t, cudaStream_t>, std::vector<void *>> idle;
    };
    std::mutex lock;
    std::map<pool_id, pool> pools;
    std::unordered_map<void *, cufence_torch_buffer> live;
};

} // namespace

#endif
