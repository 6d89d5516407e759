/*
 * PyTorch's CUDA allocator: a class over libcufence, which decides everything about memory. What is here turns PyTorch's C++
 * objects into calls of torch.h and back: exceptions, figures, pools, checkpoints of pools, snapshots and the history of
 * memory.
 *
 * It is compiled against PyTorch's c10 headers, for each version on its own; CUFENCE_TORCH_VERSION is major * 10000 + minor *
 * 100 + patch. cufence_torch_install() makes it PyTorch's allocator.
 *
 * Thread safety: as described in cufence.h. No lock is held while libcufence is called.
 */
#include "allocator_memory.h"

namespace
{

/* The live buffers of a pool. */
struct checkpoint : native::AllocatorState {
    pool_id id;
    std::vector<cufence_mapping> live;
};

class cufence_allocator final : public tensor_memory
{
  public:
    /* ---- pools ---- */

    void beginAllocateToPool(DeviceIndex device, pool_id id, std::function<bool(cudaStream_t)> filter) override
    {
        if (borrowed.count.load())
            borrowed.begin(device, id, filter);
        auto owned = std::make_unique<std::function<bool(cudaStream_t)>>(std::move(filter));
        check(cufence_pool_begin(device, pool_words(id).words, pool_contains, owned.get(), pool_forget),
              "cannot begin a memory pool", HERE);
        (void)owned.release(); /* pool_forget() deletes it */
    }

    /* PyTorch calls this and the next in destructors. */
    void endAllocateToPool(DeviceIndex device, pool_id id) override
    {
        borrowed.end(device, id);
        warn(cufence_pool_end(device, pool_words(id).words), "cannot end a memory pool");
    }

    void releasePool(DeviceIndex device, pool_id id) override
    {
        warn(cufence_pool_release(device, pool_words(id).words), "cannot release a memory pool");
        if (borrowed.count.load() && !cufence_torch_pool_users(device, pool_words(id).words))
            borrowed.give_back(id, true);
    }

    int getPoolUseCount(DeviceIndex device, pool_id id) override
    {
        return cufence_torch_pool_users(device, pool_words(id).words);
    }

    void createOrIncrefPool(DeviceIndex device, pool_id id, lender from = nullptr) override
    {
        if (from)
            borrowed.add(id, std::move(from));
        check(cufence_torch_pool_retain(device, pool_words(id).words), "cannot make a memory pool", HERE);
    }

    void setUseOnOOM(DeviceIndex device, pool_id id, bool may_lend) override
    {
        check(cufence_torch_pool_lend(device, pool_words(id).words, may_lend), "cannot lend a memory pool", HERE);
    }

    void setNoSplit(DeviceIndex, pool_id) override
    {
        /* no mapping is ever split */
    }

    bool checkPoolLiveAllocations(DeviceIndex device, pool_id id, const std::unordered_set<void *> &expected) override
    {
        auto live = mappings_of(device, &id, true);
        return live.size() == expected.size() && std::all_of(live.begin(), live.end(), [&](const cufence_mapping &each) {
                   return expected.count(reinterpret_cast<void *>(each.buffer.address)) != 0;
               });
    }

    std::shared_ptr<native::AllocatorState> getCheckpointState(DeviceIndex device, pool_id id) override
    {
        auto state = std::make_shared<checkpoint>();
        state->id = id;
        state->live = mappings_of(device, &id, true);
        return state;
    }

    native::CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<native::AllocatorState> given) override
    {
        auto state = std::dynamic_pointer_cast<checkpoint>(given);
        TORCH_CHECK(state, "cufence: not a state of this allocator's");
        native::CheckpointDelta delta;
        for (const auto &each : mappings_of(device, &state->id, true))
            delta.ptrs_freed.push_back(reinterpret_cast<void *>(each.buffer.address));
        check(cufence_torch_pool_restore(device, pool_words(state->id).words, state->live.data(), state->live.size()),
              "cannot restore the state of a memory pool", HERE);
        for (const auto &each : state->live) {
            void *pointer = reinterpret_cast<void *>(each.buffer.address);
            delta.dataptrs_allocd.emplace_back(pointer, pointer, &release_pointer, c10::Device(c10::kCUDA, device));
        }
        return delta;
    }

    /* ---- history, snapshots ---- */

    void recordHistory(bool enabled, native::CreateContextFn recorder, std::size_t most, native::RecordContext when,
                       bool clears, const std::vector<std::string> &skip) override
    {
        past.record(enabled, recorder, most, when, clears, skip, mappings_of(-1, nullptr, false));
    }

    /* A mapping is a segment: the slack before its buffer, the buffer, the slack behind it. Borrowed memory is in none. */
    native::SnapshotInfo snapshot(pool_id id = {0, 0}, bool has_traces = true) override
    {
        native::SnapshotInfo info{};
        info.device_traces.resize(static_cast<std::size_t>(devices.load()));
        const pool_id *only = id.first || id.second ? &id : nullptr;
        const auto mappings = mapped_now(nullptr);
        for (const auto &mapping : mappings) {
            if (!only || *only == pool_id{mapping.pool[0], mapping.pool[1]})
                info.segments.push_back(segment(mapping));
        }
        past.fill(info, has_traces);
        info.config_metadata.last_allocator_settings = std::string("backend:cufence ") + cufence_version_string();
        info.config_metadata.roundup_power2_divisions.resize(16);
        return info;
    }

    bool isHistoryEnabled() override
    {
        return past.is_enabled();
    }

    void attachOutOfMemoryObserver(native::OutOfMemoryObserver observer) override
    {
        std::lock_guard<std::mutex> guard(lock);
        observers.push_back(std::move(observer));
    }

    void attachAllocatorTraceTracker(native::AllocatorTraceTracker tracker) override
    {
        past.attach(std::move(tracker));
    }

    /* Of throw_on_cudamalloc_oom: there is no cudaMalloc to refuse. */
    void attachOomRejectionObserver(std::function<void(std::int64_t, std::size_t, std::size_t, std::size_t)>) OVERRIDE_2_12
    {
    }

    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void *pointer) OVERRIDE_2_12
    {
        return past.of(reinterpret_cast<std::uintptr_t>(pointer));
    }

    c10::DataPtr allocateWithAddress(std::size_t size, void *address) OVERRIDE_2_13
    {
        TORCH_CHECK(false, "cufence: ", size, " bytes cannot be had at the address ", address,
                    ": a guarded buffer ends where its mapping ends. Allocate without an address");
    }

    /* ---- other devices and processes ---- */

    native::ShareableHandle shareIpcHandle(void *) override
    {
        refuse_ipc();
    }

    std::shared_ptr<void> getIpcDevPtr(std::string) override
    {
        refuse_ipc();
    }

    void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override
    {
        c10::cuda::CUDAGuard guard(device);
        cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
        if (error == cudaErrorPeerAccessAlreadyEnabled)
            (void)cudaGetLastError();
        else
            C10_CUDA_CHECK(error);
        cufence_torch_share(peer, device);
    }

    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device, std::size_t count, cudaStream_t stream,
                            bool is_peer) override
    {
        if (is_peer || to_device == from_device)
            return cudaMemcpyAsync(to, from, count, cudaMemcpyDeviceToDevice, stream);
        return cudaMemcpyPeerAsync(to, to_device, from, from_device, count, stream);
    }

  private:
    static int pool_contains(cufence_stream stream, void *filter)
    {
        return (*static_cast<std::function<bool(cudaStream_t)> *>(filter))(stream) ? 1 : 0;
    }

    static void pool_forget(void *filter)
    {
        delete static_cast<std::function<bool(cudaStream_t)> *>(filter);
    }

    [[noreturn]] static void refuse_ipc()
    {
        TORCH_CHECK(false, "cufence: other processes cannot map a guarded tensor by CUDA IPC. Send it through the host: "
                           "tensor.cpu() here, tensor.cuda() there; torch.multiprocessing shares tensors of the processor");
    }

    native::SegmentInfo segment(const cufence_mapping &mapping)
    {
        const cufence_buffer &buffer = mapping.buffer;
        native::SegmentInfo segment;
        segment.device = static_cast<DeviceIndex>(buffer.device);
        segment.address = buffer.mapping_start;
        segment.total_size = buffer.mapping_end - buffer.mapping_start;
        segment.stream = reinterpret_cast<cudaStream_t>(buffer.stream);
        segment.is_large = segment.total_size > 1048576;
        segment.owner_private_pool_id = {mapping.pool[0], mapping.pool[1]};
        const bool is_used = mapping.is_live || mapping.is_waiting;
        const std::size_t size = is_used ? buffer.size : segment.total_size;
        const std::size_t before = is_used ? buffer.address - buffer.mapping_start : 0;
        segment.allocated_size = segment.requested_size = mapping.is_live ? size : 0;
        segment.active_size = is_used ? size : 0;
        if (before)
            segment.blocks.push_back(block(before, 0, false, false));
        segment.blocks.push_back(block(size, is_used ? size : 0, mapping.is_live, is_used));
        if (mapping.is_live)
            segment.blocks.back().context_when_allocated = past.of(buffer.address);
        if (before + size < segment.total_size)
            segment.blocks.push_back(block(segment.total_size - before - size, 0, false, false));
        return segment;
    }

    static native::BlockInfo block(std::size_t size, std::size_t requested, bool is_allocated, bool is_active)
    {
        native::BlockInfo block;
        block.size = size;
        block.requested_size = requested;
        block.allocated = is_allocated;
        block.active = is_active;
        return block;
    }
};

/* Never destroyed: tensors may be freed at the end of the process. */
cufence_allocator &instance()
{
    static auto *allocator = new cufence_allocator;
    return *allocator;
}

void release_pointer(void *pointer)
{
    instance().release(pointer);
}

} // namespace

/* For adopt.c, which compares its class with that of PyTorch's own before it is installed. */
extern "C" __attribute__((visibility("default"))) native::CUDAAllocator *cufence_torch_allocator()
{
    return &instance();
}

/* Makes the class PyTorch's CUDA allocator. Call before PyTorch starts CUDA. is_traced: it tells torch.cuda._gpu_trace of
 * tensors. Returns NULL, or why not. */
extern "C" __attribute__((visibility("default"))) const char *cufence_torch_install(int is_traced)
{
    auto *now = native::allocator.load();
    if (now == &instance())
        return nullptr;
    if (now->initialized())
        return "PyTorch has started CUDA already";
    /* PyTorch reads its settings once, and checks the back end in them against the allocator that there is by then. */
    try {
        (void)native::CUDAAllocatorConfig::pinned_num_register_threads();
    } catch (const c10::Error &error) { /* PyTorch raises it itself at its first use */
        static std::string why;
        why = error.what_without_backtrace();
        return why.c_str();
    }
    instance().before = now;
    instance().is_traced = is_traced != 0;
    native::allocator.store(&instance());
    c10::SetAllocator(c10::kCUDA, &instance());
    return nullptr;
}
