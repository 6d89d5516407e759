// cufence in a C++ program: a buffer that frees itself, on the stream that used it.
// Runs on a GPU, or with CUFENCE_DRIVER=sim on the simulated device. Builds with
//     c++ -std=c++17 raii.cpp -o raii $(pkg-config --cflags --libs cufence)
#include <cufence.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

class Error : public std::runtime_error
{
  public:
    explicit Error(cufence_status status)
        : std::runtime_error(std::string(cufence_strerror(status)) + ": " + cufence_error_detail())
    {
    }
};

static void check(cufence_status status)
{
    if (status != CUFENCE_OK)
        throw Error(status);
}

// The buffers that the thread allocates while a Label lives carry it in reports.
class Label
{
  public:
    explicit Label(const char *text)
    {
        check(cufence_label_push(text));
    }
    ~Label()
    {
        cufence_label_pop();
    }
    Label(const Label &) = delete;
    Label &operator=(const Label &) = delete;
};

// `count` elements on a device, owned by one object. Never waits: the free is ordered on the stream.
template <typename T>
class Buffer
{
  public:
    explicit Buffer(std::size_t count, int device = 0, cufence_stream stream = nullptr) : count_(count), stream_(stream)
    {
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(count, sizeof(T), &bytes))
            throw Error(CUFENCE_ERROR_OVERFLOW);
        void *pointer = nullptr;
        check(cufence_malloc(&pointer, bytes, device, stream));
        data_ = static_cast<T *>(pointer);
    }
    Buffer(Buffer &&other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_), stream_(other.stream_)
    {
    }
    Buffer &operator=(Buffer &&) = delete;
    ~Buffer()
    {
        cufence_free(data_, stream_);
    }

    // Work on another stream uses the buffer as well: its free has to come after that work.
    void used_on(cufence_stream stream)
    {
        check(cufence_record_stream(data_, stream));
    }
    T *data() const
    {
        return data_;
    }
    std::size_t size() const
    {
        return count_;
    }

  private:
    T *data_ = nullptr;
    std::size_t count_;
    cufence_stream stream_;
};

static Buffer<float> make_activations()
{
    Label label("activations");
    return Buffer<float>(1000);
}

int main()
try {
    check(cufence_init(nullptr)); // before the first CUDA context; options come from CUFENCE_OPTIONS
    {
        Buffer<float> activations = make_activations();
        cufence_description found{};
        found.struct_size = sizeof found;
        check(cufence_describe(activations.data() + activations.size(), &found));
        std::printf("element %zu lies %llu bytes past the end of \"%s\"\n", activations.size(),
                    static_cast<unsigned long long>(found.offset), found.buffer.label);
    }
    try {
        Buffer<double> impossible(SIZE_MAX / sizeof(double) - 1000);
    } catch (const Error &error) {
        std::printf("refused: %s\n", error.what());
    }
    cufence_stats stats{};
    stats.struct_size = sizeof stats;
    check(cufence_get_stats(-1, &stats));
    std::printf("%llu buffers are left\n", static_cast<unsigned long long>(stats.live_buffers));
    return stats.live_buffers == 0 ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
