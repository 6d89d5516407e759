/*
 * The part of PyTorch's allocator class that allocates and frees tensors, throws PyTorch's exceptions and has its figures.
 * Included by allocator.cpp only.
 */
#pragma once

#include "allocator_parts.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>

#define HERE (c10::SourceLocation{__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)})

namespace
{

constexpr std::size_t most = std::size_t{1} << 60;

/* ---- errors ---- */

/* As PyTorch writes it. */
std::string readable(std::size_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    if (bytes < 1024)
        return std::to_string(bytes) + " bytes";
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    char text[64];
    std::snprintf(text, sizeof text, "%.2f %s", value, units[unit]);
    return text;
}

[[noreturn]] void raise(cufence_status status, const std::string &what, const c10::SourceLocation &where)
{
    if (status != CUFENCE_ERROR_FAULTED)
        throw c10::Error(where, "cufence: " + what + ": " + cufence_error_detail());
    /* The first line is PyTorch's own message, which programs match. */
    std::int32_t fault = cufence_torch_fault();
    std::string message = std::string("CUDA error: ") + cudaGetErrorString(static_cast<cudaError_t>(fault)) +
                          "\ncufence has reported it: see 'cufence:' in the output above.";
    throw c10::AcceleratorError(where, fault, message);
}

void check(cufence_status status, const char *what, const c10::SourceLocation &where)
{
    if (status != CUFENCE_OK)
        raise(status, what, where);
}

/* For what PyTorch calls in destructors, where an exception would end the process. A forked child has the parent's tensors and
 * graphs, and no CUDA. */
void warn(cufence_status status, const char *what)
{
    if (status != CUFENCE_OK && status != CUFENCE_ERROR_NOT_INITIALIZED)
        std::fprintf(stderr, "cufence: %s: %s\n", what, cufence_error_detail());
}

bool is_lack_of_memory(cufence_status status)
{
    return status == CUFENCE_ERROR_OUT_OF_MEMORY || status == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE ||
           status == CUFENCE_ERROR_OVERFLOW;
}

std::size_t bytes(std::int64_t figure)
{
    return figure > 0 ? static_cast<std::size_t>(figure) : 0;
}

/* A pool's id as C functions take it. */
struct pool_words {
    std::uint64_t words[2];
    explicit pool_words(const pool_id &id) : words{id.first, id.second}
    {
    }
};

std::vector<cufence_mapping> mappings_of(DeviceIndex device, const pool_id *id, bool is_live)
{
    cufence_mapping *all = nullptr;
    std::size_t count = cufence_torch_mappings(device, id ? pool_words(*id).words : nullptr, is_live, &all);
    std::vector<cufence_mapping> mappings(all, all + count);
    std::free(all);
    return mappings;
}

void release_pointer(void *pointer);

/* What becomes of single tensors, and what is counted. */
class tensor_memory : public native::CUDAAllocator
{
  public:
    native::CUDAAllocator *before = nullptr; /* set when the class is installed, like the next */
    bool is_traced = true;                   /* tells PyTorch's GPU trace */

    void *take(std::size_t size, DeviceIndex device, cudaStream_t stream, const void *caller)
    {
        void *pointer =
            C10_UNLIKELY(borrowed.count.load(std::memory_order_relaxed) != 0) ? borrow(size, device, stream) : nullptr;
        cufence_status status = pointer ? CUFENCE_OK : cufence_torch_malloc(&pointer, size, device, stream, caller);
        if (C10_UNLIKELY(status != CUFENCE_OK))
            pointer = take_hard(status, size, device, stream, caller);
        if (C10_UNLIKELY(past.is_wanted.load(std::memory_order_relaxed)))
            tell_allocated(pointer);
        if (const c10::impl::PyInterpreter *trace = trace_now(); C10_UNLIKELY(trace != nullptr))
            (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(pointer));
        if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
            profile(pointer, static_cast<std::int64_t>(size), device);
        return pointer;
    }

    /* Never throws: tensors are freed in destructors. */
    void release(void *pointer) noexcept
    {
        cufence_torch_buffer freed = {};
        if (!pointer)
            return;
        const bool is_followed = past.is_wanted.load(std::memory_order_relaxed);
        if (C10_UNLIKELY(is_followed)) /* before another thread may be given the address */
            tell_freed(pointer);
        const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(pointer);
        if (const c10::impl::PyInterpreter *trace = trace_now(); C10_UNLIKELY(trace != nullptr))
            (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, address);
        if (C10_UNLIKELY(borrowed.count.load(std::memory_order_relaxed) != 0) && borrowed.release(pointer, &freed))
            cufence_torch_count(freed.device, freed.size, -1);
        else
            warn(cufence_torch_free(pointer, &freed), "PyTorch could not free a tensor's memory");
        if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
            profile(pointer, -static_cast<std::int64_t>(freed.size), static_cast<DeviceIndex>(freed.device));
    }

    /* ---- Allocator ---- */

    c10::DataPtr allocate(std::size_t size) override
    {
        TORCH_CHECK_WITH(OutOfMemoryError, size < most, "CUDA out of memory. Tried to allocate more than 1EB memory.");
        const DeviceIndex device = c10::cuda::current_device();
        const void *caller = __builtin_return_address(0);
        void *pointer = size ? take(size, device, c10::cuda::getCurrentCUDAStream(device), caller) : nullptr;
        return {pointer, pointer, &release_pointer, c10::Device(c10::kCUDA, device)};
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return &release_pointer;
    }

    void copy_data(void *to, const void *from, std::size_t count) const override
    {
        C10_CUDA_CHECK(cudaMemcpy(to, from, count, cudaMemcpyDeviceToDevice));
    }

    void *raw_alloc(std::size_t size) override
    {
        return size ? take(size, c10::cuda::current_device(), c10::cuda::getCurrentCUDAStream(), nullptr) : nullptr;
    }

    void *raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override
    {
        return size ? take(size, c10::cuda::current_device(), stream, nullptr) : nullptr;
    }

    void raw_delete(void *pointer) override
    {
        release(pointer);
    }

    void recordStream(const c10::DataPtr &pointer, c10::cuda::CUDAStream stream) override
    {
        if (!pointer.get() || pointer.get_deleter() != &release_pointer || /* imported memory */
            (borrowed.count.load() && borrowed.record(pointer.get())))
            return;
        cufence_status status = cufence_record_stream(pointer.get(), stream);
        if (status != CUFENCE_ERROR_NOT_FOUND)
            check(status, "record_stream failed", HERE);
    }

    /* ---- begin, limits ---- */

    /* CUDA has started, and with it cufence, unless it cannot: then the allocator that was there
     * before serves. */
    void init(int count) override
    {
        cufence_stats stats{};
        stats.struct_size = sizeof stats;
        (void)c10::cuda::device_count(); /* starts CUDA; libtorch has asked before, a program of its own may not have */
        if (cufence_get_stats(-1, &stats) == CUFENCE_ERROR_NOT_INITIALIZED && before) {
            native::allocator.store(before);
            c10::SetAllocator(c10::kCUDA, before);
            before->init(count);
            return;
        }
        devices = count;
        check(cufence_torch_set_limit(-1, native::CUDAAllocatorConfig::per_process_memory_fraction()),
              "cannot limit the memory of devices", HERE);
        cufence_torch_installed();
    }

    bool initialized() override
    {
        return devices.load() > 0;
    }

    std::string name() override
    {
        return "native"; /* what PyTorch asks before it uses graph trees, pools and snapshots */
    }

    void enable(bool value) override
    {
        is_on = value;
    }

    bool isEnabled() const override
    {
        return is_on;
    }

    double getMemoryFraction(DeviceIndex device) override
    {
        return cufence_torch_limit(device);
    }

    void setMemoryFraction(double part, DeviceIndex device) override
    {
        check(cufence_torch_set_limit(device, part), "cannot limit a device's memory", HERE);
    }

    /* With a pool's id, at its end: its memory is kept for others. */
    void emptyCache(pool_id id = {0, 0}) override
    {
        if (borrowed.count.load())
            borrowed.give_back(id, false);
        if (id.first || id.second)
            return;
        check(cufence_torch_empty_cache(), "empty_cache failed", HERE);
        if (past.is_wanted.load())
            mapped_now(past.context(native::RecordContext::ALL));
    }

    void cacheInfo(DeviceIndex device, std::size_t *largest) override
    {
        *largest = std::max(*largest, cufence_torch_largest(device));
    }

    void *getBaseAllocation(void *pointer, std::size_t *size) override
    {
        cufence_torch_buffer buffer;
        TORCH_CHECK(cufence_torch_find(pointer, &buffer), "cufence: ", pointer, " is in no buffer of PyTorch's");
        if (size)
            *size = buffer.size;
        return reinterpret_cast<void *>(buffer.address);
    }

    std::vector<native::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) override
    {
        return {};
    }

    /* ---- figures ---- */

    native::DeviceStats getDeviceStats(DeviceIndex device) override
    {
        cufence_torch_figures figures;
        native::DeviceStats stats;
        check(cufence_torch_get_figures(device, &figures), "no figures", HERE);
        for (int i = 0; i < CUFENCE_TORCH_SIZES; i++) {
            stats.allocation[i] = stats.active[i] = stat(figures.buffers[i]);
            stats.allocated_bytes[i] = stats.active_bytes[i] = stats.requested_bytes[i] = stat(figures.bytes[i]);
        }
        for (int i : {CUFENCE_TORCH_ALL, CUFENCE_TORCH_LARGE}) { /* pages serve buffers of every size */
            stats.segment[i] = stat(figures.mappings);
            stats.reserved_bytes[i] = stat(figures.mapped);
            stats.inactive_split_bytes[i] = stat(figures.slack);
        }
        stats.num_ooms = figures.failures;
        stats.num_device_alloc = figures.mappings.allocated;
        stats.num_device_free = figures.mappings.freed;
        return stats;
    }

    void resetAccumulatedStats(DeviceIndex device) override
    {
        check(cufence_torch_reset(device, false), "cannot reset figures", HERE);
    }

    void resetPeakStats(DeviceIndex device) override
    {
        check(cufence_torch_reset(device, true), "cannot reset figures", HERE);
    }

  protected:
    history past;
    borrowed_pools borrowed;
    std::atomic<int> devices{0};
    std::atomic<bool> is_on{true};
    std::mutex lock; /* guards the rest */
    std::vector<native::OutOfMemoryObserver> observers;

    /* Returns what is mapped, after the history has been told what no longer is. */
    std::vector<cufence_mapping> mapped_now(std::shared_ptr<c10::GatheredContext> context)
    {
        const std::uint64_t seen = past.newest_segment(); /* those that other threads map from here on may not be in the list */
        auto mappings = mappings_of(-1, nullptr, false);
        if (past.is_wanted.load())
            past.keep_segments(mappings, seen, std::move(context));
        return mappings;
    }

  private:
    /* Costs a call into Python for each tensor while anything has activated the trace. */
    const c10::impl::PyInterpreter *trace_now() const
    {
        return is_traced ? c10::impl::GPUTrace::get_trace() : nullptr;
    }

    static c10::CachingAllocator::Stat stat(const cufence_torch_figure &figure)
    {
        return {figure.current, figure.peak, figure.allocated, figure.freed};
    }

    void *borrow(std::size_t size, DeviceIndex device, cudaStream_t stream)
    {
        void *pointer = borrowed.allocate(size, device, stream);
        if (pointer)
            cufence_torch_count(device, size, 1);
        return pointer;
    }

    /* Others may have memory to give back. Throws if there is none. */
    void *take_hard(cufence_status status, std::size_t size, DeviceIndex device, cudaStream_t stream, const void *caller)
    {
        void *pointer = nullptr;
        if (is_lack_of_memory(status) && give_memory_back())
            status = cufence_torch_malloc(&pointer, size, device, stream, caller);
        if (status == CUFENCE_OK)
            return pointer;
        if (!is_lack_of_memory(status))
            raise(status, "cannot allocate " + std::to_string(size) + " bytes on GPU " + std::to_string(device), HERE);
        raise_full(size, device);
    }

    static bool give_memory_back()
    {
        bool has = false;
        for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
            has |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
        return has;
    }

    [[noreturn]] void raise_full(std::size_t size, DeviceIndex device)
    {
        const std::string why = cufence_error_detail(); /* later calls may change it */
        std::size_t free_bytes = 0, total = 0;
        c10::cuda::CUDAGuard guard(device);
        if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
            (void)cudaGetLastError();
        cufence_torch_figures figures = {};
        (void)cufence_torch_get_figures(device, &figures);
        const std::size_t live = bytes(figures.bytes[0].current), mapped = bytes(figures.mapped.current);
        if (past.is_wanted.load())
            past.add(native::TraceEntry::OOM, {free_bytes, size, 0, {0, 0}, device},
                     past.context(native::RecordContext::STATE));
        std::unique_lock<std::mutex> locked(lock);
        auto told = observers;
        locked.unlock();
        for (const auto &observer : told)
            observer(device, size, std::min(total, bytes_allowed(device, total)), free_bytes);
        c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(size), live, mapped, c10::Device(c10::kCUDA, device));
        /* PyTorch's own words as far as they go: programs match them. */
        std::string text = "CUDA out of memory. Tried to allocate " + readable(size) + ". GPU " + std::to_string(device) +
                           " has a total capacity of " + readable(total) + " of which " + readable(free_bytes) + " is free. ";
        if (cufence_torch_limit(device) < 1)
            text += readable(bytes_allowed(device, total)) + " allowed; ";
        text += "Of the allocated memory " + readable(live) + " is allocated by PyTorch, and " +
                readable(mapped > live ? mapped - live : 0) + " is reserved by cufence beside it. cufence: " + why;
        throw c10::OutOfMemoryError(HERE, text);
    }

    static std::size_t bytes_allowed(DeviceIndex device, std::size_t total)
    {
        return static_cast<std::size_t>(cufence_torch_limit(device) * static_cast<double>(total));
    }

    void tell_allocated(void *pointer)
    {
        cufence_torch_buffer buffer;
        cufence_description found{};
        found.struct_size = sizeof found;
        if (!cufence_torch_find(pointer, &buffer) && !borrowed.find(pointer, &buffer))
            return;
        auto context = past.context(native::RecordContext::STATE);
        if (cufence_describe(pointer, &found) == CUFENCE_OK && found.place == CUFENCE_PLACE_INSIDE)
            past.add_segment(buffer, found.buffer.mapping_start, found.buffer.mapping_end, context);
        past.add(native::TraceEntry::ALLOC, buffer, context);
    }

    void tell_freed(void *pointer)
    {
        cufence_torch_buffer buffer;
        if (!cufence_torch_find(pointer, &buffer) && !borrowed.find(pointer, &buffer))
            return;
        auto context = past.context(native::RecordContext::ALL);
        past.add(native::TraceEntry::FREE_REQUESTED, buffer, context);
        past.add(native::TraceEntry::FREE_COMPLETED, buffer, context);
    }

    void profile(void *pointer, std::int64_t change, DeviceIndex device)
    {
        cufence_torch_figures figures = {};
        (void)cufence_torch_get_figures(device, &figures);
        c10::reportMemoryUsageToProfiler(pointer, change, bytes(figures.bytes[0].current), bytes(figures.mapped.current),
                                         c10::Device(c10::kCUDA, device));
    }
};

} // namespace
